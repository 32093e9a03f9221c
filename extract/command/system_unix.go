//go:build linux || darwin

package command

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

// give makes the open file descriptor 3 of cmd, at its beginning. On Linux, opening /dev/fd/3 opens the file anew;
// on macOS it shares the descriptor's offset.
func give(cmd *exec.Cmd, f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	cmd.ExtraFiles = []*os.File{f}
	cmd.Env = append(cmd.Env, "GUYLINE_FILE=/dev/fd/3")
	return nil
}

// locks: a directory in use can be told from a leftover.
const locks = true

// lock reports whether nobody else has locked the directory.
func lock(dir *os.File) bool {
	return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
