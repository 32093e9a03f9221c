package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const tempPattern = "guyline-command-*"

// workspace is one run's temporary directory. It is locked as long as it is in use.
type workspace struct {
	path string
	open *os.File // holds the lock, which ends with the process at the latest
}

var errTaken = errors.New("another process keeps taking its temporary directories for leftovers")

func newWorkspace(dir string) (*workspace, error) {
	for range 10 { // between making and locking it, another worker's sweep may remove it
		path, err := os.MkdirTemp(dir, tempPattern)
		if err != nil {
			return nil, err
		}
		if w := claim(path); w != nil {
			return w, nil
		}
	}
	return nil, errTaken
}

// claim locks a directory, unless somebody else has it or it is gone.
func claim(path string) *workspace {
	open, err := os.Open(path)
	if err != nil {
		return nil
	}
	if lock(open) {
		if _, err := os.Lstat(path); err == nil {
			return &workspace{path, open}
		}
	}
	open.Close()
	return nil
}

// remove removes the directory and what the extractor left in it.
func (w *workspace) remove() {
	_ = os.RemoveAll(w.path)
	w.open.Close()
}

// sweep removes the directories that killed workers have left, where it can tell.
func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ours, _ := filepath.Match(tempPattern, e.Name()); !locks || !ours || e.Type() != fs.ModeDir {
			continue
		}
		if w := claim(filepath.Join(dir, e.Name())); w != nil {
			w.remove()
		}
	}
	return nil
}
