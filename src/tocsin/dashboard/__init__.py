"""The page for watching and operating a network. It is made of files as they are: no build, nothing from elsewhere."""
