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
	"syscall"

	"github.com/guyline/guyline/report"
)

// fetchFile opens the regular file at path below the root, and reads it once for its SHA-256.
func (s *Sources) fetchFile(ctx context.Context, path string) (*File, error) {
	// O_NONBLOCK keeps a fifo without a writer from blocking the open; it means nothing for regular files.
	opened, err := s.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(err)
	}
	f := &File{File: opened, Came: "a file", local: true}
	if err := f.read(ctx, s.cfg.MaxBytes); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) read(ctx context.Context, maxBytes int64) error {
	info, err := f.Stat()
	if err != nil {
		return fileError(err)
	}
	f.Size, f.changed = info.Size(), info.ModTime()
	if err := checkStat(info, maxBytes); err != nil {
		return err
	}
	return f.digest(ctx)
}

func (f *File) digest(ctx context.Context) error {
	digest, from := sha256.New(), io.NewSectionReader(f, 0, f.Size)
	for read := int64(0); read < f.Size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(digest, from, min(1<<20, f.Size-read))
		read += n
		switch {
		case err == io.EOF:
			return failure(faultShort, 0, fmt.Errorf("only %d of the file's %d bytes could be read", read, f.Size))
		case err != nil:
			return fileError(err)
		}
	}
	f.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return nil
}

// checkStat refuses what is no regular file of a fitting size.
func checkStat(info fs.FileInfo, maxBytes int64) error {
	if !info.Mode().IsRegular() {
		return refuse(report.CodeNotAPDF, "it is %s, not a file; correct source_uri", kind(info.Mode()))
	}
	return checkSize(info.Size(), maxBytes)
}

func checkSize(size, maxBytes int64) error {
	switch {
	case size == 0:
		return failure(faultUploading, 0, errors.New("the file is still empty"))
	case size > maxBytes:
		return failure(faultTooLarge, 0, fmt.Errorf("the file has %d bytes, at most %d are allowed", size, maxBytes))
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// fileError judges an operating system's error. One that the table does not list has no kind.
func fileError(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		if pathErr.Err.Error() == "path escapes from parent" { // package os exports no value for it
			return errOutside
		}
		err = pathErr.Err // the path is in the URI already
	}
	errno, _ := errors.AsType[syscall.Errno](err)
	return failure(errno, 0, fmt.Errorf("read the file: %w", err))
}
