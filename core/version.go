package core

// Version names the build; `make build` sets it from the repository's tags.
var Version = "unversioned"
