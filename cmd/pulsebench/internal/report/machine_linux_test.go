package report

import "testing"

func TestMountOfFolder(t *testing.T) {
	mounts := []byte(`22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /tmp rw - tmpfs tmpfs rw
31 22 254:16 / /mnt/my\040disk rw shared:1 - xfs /dev/vdb rw
32 30 0:30 / /tmp rw - overlay over rw
`)
	for folder, want := range map[string]string{
		"/home/x":       "ext4 on /dev/vda",
		"/tmp":          "overlay on over", // the later mount hides the earlier one
		"/tmp/a":        "overlay on over",
		"/tmpfile":      "ext4 on /dev/vda",
		"/mnt/my disk/": "xfs on /dev/vdb",
	} {
		if got := mountOf(mounts, folder); got != want {
			t.Errorf("%s is on %q, want %q", folder, got, want)
		}
	}
	if fileSystem("") != "" || fileSystem("/proc") != "proc on proc" {
		t.Errorf("no folder is on %q, /proc on %q", fileSystem(""), fileSystem("/proc"))
	}
}
