"""The strategies of the DEBS 2019 paper: LDM, SDM, GSH and their combination."""
