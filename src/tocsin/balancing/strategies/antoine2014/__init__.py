"""The strategies that Antoine et al. (2014) decompose into components, one file each."""
