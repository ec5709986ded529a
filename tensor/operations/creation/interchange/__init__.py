"""Memory that is shared with other libraries: DLPack and the array interfaces."""
