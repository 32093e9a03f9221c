package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/guyline/guyline/report"
)

// Config says where reports may come from and how large they may be. The zero value reads files below the working
// directory, and from every public host.
type Config struct {
	FileRoot        string   // the directory that no path leaves; empty = the working directory
	MaxBytes        int64    // the largest file, in bytes; 0 = 256 MiB
	TempDir         string   // downloads are kept there while in work; empty = the system's
	AllowHosts      []string // hosts of http, https and sftp; see the package documentation; empty = every public one
	HostConcurrency int      // fetches from one host at once; 0 = 4
	S3              S3
	SFTP            SFTP
}

// S3 is the store behind s3: URIs.
type S3 struct {
	Endpoint  string // a URL like https://minio.example:9000; empty = Amazon's
	Region    string // empty = asked from the endpoint, once per bucket
	PathStyle bool   // the bucket is named in the path; always so at an endpoint that is not Amazon's
}

// SFTP is how to log in to the hosts of sftp: URIs: the same on each. What is empty is not tried.
type SFTP struct {
	User        string // empty = no sftp
	KeyFile     string // an unencrypted private key, as ssh-keygen writes it
	AgentSocket string // the Unix socket of an SSH agent
	Password    string
	KnownHosts  string // file of the host keys; read for each new connection; empty = no sftp
}

// Sources fetches reports. Its methods may be called from many goroutines.
type Sources struct {
	cfg   Config
	root  *os.Root
	dir   string // absolute path of root
	hosts *hosts
	guard *guard
	web   *http.Client
	s3    *s3Store
	sftp  *sshPool
	idle  time.Duration // the longest that a source may say nothing
	log   *slog.Logger
}

// idleLimit bounds the silence of a source, from the connection to the last byte.
const idleLimit = 30 * time.Second

// Open checks the configuration, opens the file root and removes what killed processes have left in the temporary
// directory. It talks to no server. A wrong field is a [report.ConfigError], which says what is allowed.
func Open(cfg Config, log *slog.Logger) (*Sources, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 256 << 20
	}
	if cfg.HostConcurrency == 0 {
		cfg.HostConcurrency = 4
	}
	if cfg.TempDir == "" {
		cfg.TempDir = os.TempDir()
	}
	if cfg.MaxBytes < 1 || cfg.HostConcurrency < 1 {
		return nil, fmt.Errorf("source: the largest file (%d) and the fetches per host (%d) must be above 0", cfg.MaxBytes, cfg.HostConcurrency)
	}
	guard, err := newGuard(cfg.AllowHosts)
	if err != nil {
		return nil, wrong("AllowHosts", err)
	}
	s := &Sources{cfg: cfg, hosts: newHosts(cfg.HostConcurrency), guard: guard, idle: idleLimit, log: log}
	s.web = newWeb(guard, cfg.HostConcurrency)
	if s.s3, err = newS3Store(cfg.S3, sharedCredentials(), newTransport(guard.open.DialContext, cfg.HostConcurrency)); err != nil {
		return nil, wrong("S3.Endpoint", err)
	}
	if s.sftp, err = newSSHPool(cfg.SFTP, guard, log); err != nil {
		return nil, err
	}
	if err := sweep(cfg.TempDir); err != nil {
		return nil, wrong("TempDir", fmt.Errorf("%w; create it or choose another", err))
	}
	if err := writable(cfg.TempDir); err != nil {
		return nil, wrong("TempDir", fmt.Errorf("%w; make room there, let this user write there, or choose another", err))
	}
	if s.dir, err = filepath.Abs(cfg.FileRoot); err != nil {
		return nil, fmt.Errorf("source: find the file root: %w", err)
	}
	if s.root, err = os.OpenRoot(s.dir); err != nil {
		return nil, wrong("FileRoot", fmt.Errorf("%w; create it or choose another", err))
	}
	return s, nil
}

func wrong(field string, err error) error {
	return fmt.Errorf("source: %w", &report.ConfigError{Field: field, Err: err})
}

// Close ends the idle connections and frees the file root. Call it after the last Fetch has returned; files that
// were fetched stay open.
func (s *Sources) Close() error {
	s.web.CloseIdleConnections()
	s.s3.transport.CloseIdleConnections()
	s.sftp.close()
	if err := s.root.Close(); err != nil {
		return fmt.Errorf("source: close the file root: %w", err)
	}
	return nil
}

var errIdle = errors.New("the source fell silent")

// Fetch brings the file that uri names, whole and at rest. The caller closes it. An error has the kind and code of
// the table in this package, and names neither user nor query of the URI; if ctx has ended it is ctx's error, plainly.
// Fetch tries once: trying again is the business of whoever redelivers the report.
func (s *Sources) Fetch(ctx context.Context, uri string) (*File, error) {
	f, err := s.fetch(ctx, uri)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f, err
}

func (s *Sources) fetch(ctx context.Context, uri string) (*File, error) {
	t, err := parse(s.dir, uri)
	if err != nil {
		return nil, err
	}
	if t.scheme == "file" {
		return s.fetchFile(ctx, t.path)
	}
	host := t.address()
	if t.scheme == "s3" {
		host = s.s3.host
	} else if err := s.guard.admit(t.host, t.port); err != nil {
		return nil, err
	}
	leave, err := s.hosts.enter(ctx, host)
	if err != nil {
		return nil, err
	}
	defer leave()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(s.idle, func() { cancel(errIdle) })
	defer silence.Stop()
	alive := func() { silence.Reset(s.idle) }
	var f *File
	switch t.scheme {
	case "s3":
		f, err = s.fetchS3(ctx, t.host, t.path, alive)
	case "sftp":
		f, err = s.fetchSFTP(ctx, t.address(), t.path, alive)
	default:
		f, err = s.fetchWeb(ctx, t.url, alive)
	}
	if code := report.Classify(err).Code; err != nil && context.Cause(ctx) == errIdle && (code == report.CodeConnection || code == report.CodeUnclassified) {
		err = failure(faultTimeout, 0, fmt.Errorf("the source sent nothing for %v", s.idle))
	}
	return f, err
}

// File is a fetched report, open for reading at its start.
type File struct {
	*os.File
	Size   int64  // in bytes, at least 1
	SHA256 string // of all of it, 64 lower-case hex digits
	Came   string // what came, in one line for people: status and content type as the source claims them

	named   bool      // its name must be removed on Close
	local   bool      // it is the source itself, not a copy
	changed time.Time // when a local file was last modified
}

// Settled reports, as transient [report.CodeStillUploading], a source that changed since it was opened: what has been read of
// it is no basis for a verdict. A download is at rest already.
func (f *File) Settled(ctx context.Context) error {
	if !f.local {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return fileError(err)
	}
	if info.Size() != f.Size || !info.ModTime().Equal(f.changed) {
		return failure(faultUploading, 0, fmt.Errorf("the file changed while it was read, from %d to %d bytes", f.Size, info.Size()))
	}
	return nil
}

// Close closes the file. A download is gone then.
func (f *File) Close() error {
	err := f.File.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// refuse is poison that has no row in the table, because nothing was asked of anyone.
func refuse(code report.Code, format string, args ...any) error {
	return report.Poison(code, fmt.Errorf(format, args...))
}
