package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/guyline/guyline/report"
)

// The names of downloads in the temporary directory.
const spoolPattern = "guyline-*.download"

// sweep removes the downloads that killed processes have left. It needs no lock: where a file that is open can be
// removed, its owner has no more use for the name; elsewhere the removal of a live one fails.
func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ours, _ := filepath.Match(spoolPattern, e.Name()); ours && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return nil
}

// writable finds what every download would meet.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, spoolPattern)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// spool copies a body into a temporary file. size is what the source said about it, or -1; alive is told of every
// byte that comes. The errors of the body go through judged.
func (s *Sources) spool(ctx context.Context, body io.Reader, size int64, alive func(), judged func(error) error) (_ *File, err error) {
	if size >= 0 {
		if err := checkSize(size, s.cfg.MaxBytes); err != nil {
			return nil, err
		}
	}
	created, err := os.CreateTemp(s.cfg.TempDir, spoolPattern)
	if err != nil {
		return nil, spoolError(err)
	}
	// Without a name, the file is gone whenever the process is. Windows removes no open file: there it has one.
	f := &File{File: created, named: os.Remove(created.Name()) != nil && exists(created.Name())}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	digest, buffer := sha256.New(), make([]byte, 128<<10)
	for {
		n, readErr := body.Read(buffer)
		if n > 0 {
			alive()
			f.Size += int64(n)
			if err := checkSize(f.Size, s.cfg.MaxBytes); err != nil {
				return nil, err
			}
			digest.Write(buffer[:n])
			if _, err := f.Write(buffer[:n]); err != nil {
				return nil, spoolError(err)
			}
		}
		if readErr == io.EOF {
			break
		}
		if readErr == io.ErrUnexpectedEOF {
			return nil, failure(faultShort, 0, fmt.Errorf("the body ended after %d bytes, too early", f.Size))
		}
		if readErr != nil {
			return nil, judged(readErr)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if size >= 0 && f.Size != size {
		return nil, failure(faultShort, 0, fmt.Errorf("%d bytes came, but the source announced %d", f.Size, size))
	}
	if err := checkSize(f.Size, s.cfg.MaxBytes); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, spoolError(err)
	}
	f.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return f, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// spoolError is about this worker's disk, which is no fault of the report.
func spoolError(err error) error {
	if pathErr, ok := err.(*fs.PathError); ok {
		err = pathErr.Err
	}
	return report.Transient(report.CodeOutOfResources, fmt.Errorf("keep the download in the temporary directory: %w; make room there", err))
}
