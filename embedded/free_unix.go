//go:build linux || darwin || freebsd

package embedded

import "syscall"

// Free is how many bytes the disk of a directory has left for this user.
func Free(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return uint64(max(0, fs.Bavail)) * uint64(fs.Bsize), nil
}
