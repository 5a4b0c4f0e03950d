package posix

// ResolveRooted makes a folder resolve names as it does where the kernel has no call
// for it, or a sandbox refuses it.
func (f *Folder) ResolveRooted() {
	_ = f.names.close()
	f.names = rooted{f.root}
}
