//go:build !linux

package main

// launched does nothing: the limits are Linux's, and every scenario that needs one says so.
func launched([]string) {}

const launchWord = "launch"
