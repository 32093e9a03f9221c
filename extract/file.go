package extract

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/guyline/guyline/report"
)

// file is one fetched report, open for reading.
type file struct {
	*os.File
	size    int64
	changed time.Time // when it was last modified
}

// openFile opens the regular file at path below root, of at most maxBytes.
func openFile(root *os.Root, path string, maxBytes int64) (*file, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".part", ".filepart", ".tmp":
		return nil, report.Transient(report.CodeStillUploading, fmt.Errorf("a name that ends in %s is an upload under way; publish the final name", ext))
	}
	// O_NONBLOCK keeps a fifo without a writer from blocking the open; it means nothing for regular files.
	osFile, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(err)
	}
	f := &file{File: osFile}
	if err := f.check(maxBytes); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *file) check(maxBytes int64) error {
	info, err := f.Stat()
	if err != nil {
		return fileError(err)
	}
	f.size, f.changed = info.Size(), info.ModTime()
	switch {
	case !info.Mode().IsRegular():
		return report.Poison(report.CodeNotAPDF, fmt.Errorf("it is %s, not a file; correct source_uri", kind(info.Mode())))
	case f.size == 0:
		return report.Transient(report.CodeStillUploading, errors.New("the file is still empty; if the upload is over, deliver it again"))
	case f.size > maxBytes:
		return report.Poison(report.CodeTooLarge, fmt.Errorf("the file has %d bytes, at most %d are allowed; split it or raise the limit", f.size, maxBytes))
	}
	return nil
}

// settled reports a file that changed since it was opened: what has been read of it is no basis for a verdict.
func (f *file) settled() error {
	info, err := f.Stat()
	if err != nil {
		return fileError(err)
	}
	if info.Size() != f.size || !info.ModTime().Equal(f.changed) {
		return report.Transient(report.CodeStillUploading, fmt.Errorf("the file changed while it was read, from %d to %d bytes", f.size, info.Size()))
	}
	return nil
}

// edgeSize is how much of a file's beginning and end is searched for its marks, in bytes.
const edgeSize = 1024

func (f *file) head() ([]byte, error) { return f.some(0) }

func (f *file) tail() ([]byte, error) { return f.some(max(0, f.size-edgeSize)) }

// some reads edgeSize bytes, or what there is.
func (f *file) some(at int64) ([]byte, error) {
	b := make([]byte, edgeSize)
	n, err := f.ReadAt(b, at)
	if err != nil && err != io.EOF {
		return nil, fileError(err)
	}
	return b[:n], nil
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

// fileError gives an operating system's error its kind and code. What waiting may heal is transient; an
// error that is not listed has no kind.
func fileError(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		if pathErr.Err.Error() == "path escapes from parent" { // package os exports no value for it
			return errOutside
		}
		err = pathErr.Err // the path is in the URI already
	}
	errno, _ := errors.AsType[syscall.Errno](err)
	switch errno {
	case syscall.ENOENT:
		return report.Transient(report.CodeNotFound, errors.New("there is no such file below the file root; deliver it or correct source_uri"))
	case syscall.EACCES, syscall.EPERM:
		return report.Poison(report.CodeForbidden, errors.New("the worker may not read the file; give its user read permission"))
	case syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP:
		return report.Poison(report.CodeNotFound, fmt.Errorf("no file can be there: %w; correct source_uri", err))
	case syscall.ENXIO, syscall.ENODEV, syscall.EISDIR:
		return report.Poison(report.CodeNotAPDF, fmt.Errorf("it is not a file: %w; correct source_uri", err))
	case syscall.ETIMEDOUT, syscall.EAGAIN:
		return report.Transient(report.CodeTimeout, fmt.Errorf("the storage did not answer in time: %w", err))
	case syscall.EIO, syscall.ESTALE, syscall.ENOTCONN, syscall.EHOSTDOWN, syscall.EHOSTUNREACH:
		return report.Transient(report.CodeConnection, fmt.Errorf("the storage failed: %w", err))
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC:
		return report.Transient(report.CodeUnclassified, fmt.Errorf("the worker has run out of a resource: %w", err))
	}
	return fmt.Errorf("read the file: %w", err)
}
