package source

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/guyline/guyline/report"
)

// target is a source URI, taken apart.
type target struct {
	scheme string   // file, http, https, s3 or sftp
	host   string   // lower case; for s3 the bucket
	port   string   // never empty for http, https and sftp
	path   string   // for file relative to the file root, for sftp absolute, for s3 the object's key
	url    *url.URL // for http and https
}

func (t target) address() string { return net.JoinHostPort(t.host, t.port) }

// parse takes a source URI apart. Its errors are poison and never quote what stands before the host or in the query.
// root is the absolute file root.
func parse(root, uri string) (target, error) {
	if len(uri) >= 5 && strings.EqualFold(uri[:5], "file:") {
		return parseFile(root, uri)
	}
	scheme, rest, found := strings.Cut(uri, "://")
	if !found || !isScheme(scheme) {
		path, err := pathBelow(root, uri)
		return target{scheme: "file", path: path}, err
	}
	scheme = strings.ToLower(scheme)
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if strings.Contains(authority, "@") {
		return target{}, errUserinfo
	}
	var t target
	var err error
	switch scheme {
	case "s3":
		t, err = parseS3(authority, path)
	case "http", "https", "sftp":
		t, err = parseURL(scheme, uri)
	default:
		err = refuse(report.CodeUnsupportedScheme, "there is no fetcher for %.20s: file, http, https, s3 and sftp are understood; correct source_uri", scheme)
	}
	if err != nil {
		return target{}, err
	}
	return t, checkName(t.path)
}

var (
	errUserinfo = report.Poison(report.CodeCredentialsInURI,
		errors.New("the URI carries a user name or password; remove it, change the password, and let the worker's configuration log in"))
	errOutside = report.Poison(report.CodeOutsideRoot,
		errors.New("the path leads outside the file root; move the file below the root, or let the root include it"))
)

// parseS3 takes bucket and key as written: an object's key may contain any character.
func parseS3(bucket, path string) (target, error) {
	key, ok := strings.CutPrefix(path, "/")
	if bucket == "" || !ok || key == "" || strings.ContainsRune(key, 0) {
		return target{}, refuse(report.CodeInvalidEvent, "an s3: URI reads s3://bucket/key; correct source_uri")
	}
	return target{scheme: "s3", host: bucket, path: key}, nil
}

func parseURL(scheme, uri string) (target, error) {
	u, err := url.Parse(uri) // its error quotes the URI
	if err != nil || u.User != nil {
		return target{}, refuse(report.CodeInvalidEvent, "it is not a valid %s: URI; correct source_uri", scheme)
	}
	t := target{scheme: scheme, host: strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port: u.Port(), path: u.Path, url: u}
	if t.port == "" {
		t.port = map[string]string{"http": "80", "https": "443", "sftp": "22"}[scheme]
	}
	_, portErr := strconv.ParseUint(t.port, 10, 16)
	switch {
	case t.host == "" || portErr != nil:
		return target{}, refuse(report.CodeInvalidEvent, "the URI names no host, or no port below 65536; correct source_uri")
	case strings.ContainsFunc(t.host, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return target{}, refuse(report.CodeInvalidEvent, "the host is not in ASCII; write an international name as xn--...")
	case scheme == "sftp" && (u.RawQuery != "" || u.ForceQuery || strings.Contains(uri, "#")):
		return target{}, refuse(report.CodeInvalidEvent, "an sftp: URI has no query or fragment; write ? as %%3F and # as %%23")
	case scheme == "sftp" && (t.path == "" || strings.ContainsRune(t.path, 0)):
		return target{}, refuse(report.CodeInvalidEvent, "the sftp: URI names no file, or has a NUL byte; correct source_uri")
	}
	return t, nil
}

func parseFile(root, uri string) (target, error) {
	rest := uri[len("file:"):]
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		host, _, _ := strings.Cut(after, "/")
		switch {
		case strings.Contains(host, "@"):
			return target{}, errUserinfo
		case host != "" && !strings.EqualFold(host, "localhost"):
			return target{}, refuse(report.CodeOutsideRoot,
				"the file: URI names a host, but only this worker's files can be read; file:///path is absolute, a plain path is below the file root")
		}
		rest = after[len(host):]
	}
	if strings.ContainsAny(rest, "?#") {
		return target{}, refuse(report.CodeInvalidEvent, "a file: URI has no query or fragment; write ? as %%3F and # as %%23")
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return target{}, refuse(report.CodeInvalidEvent, "the file: URI cannot be decoded; write %% as %%25")
	}
	path, err = pathBelow(root, path)
	return target{scheme: "file", path: path}, err
}

// pathBelow turns a path into one relative to root, an absolute directory. It looks at the spelling only; symbolic
// links are the business of [os.Root]. Relative paths are below root; absolute ones must be inside it.
func pathBelow(root, path string) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", refuse(report.CodeInvalidEvent, "the path is empty or contains a NUL byte; correct source_uri")
	}
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return "", errOutside
		}
		path = rel
	}
	if path = filepath.Clean(path); !filepath.IsLocal(path) {
		return "", errOutside
	}
	return path, checkName(path)
}

// checkName refuses the names that uploads under way have.
func checkName(path string) error {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".part", ".filepart", ".tmp":
		return failure(faultUploading, 0, errors.New("a name that ends in "+ext+" is an upload under way"))
	}
	return nil
}

// isScheme follows RFC 3986, section 3.1.
func isScheme(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	s = strings.ToLower(s)
	return s != "" && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"0123456789+-.") == ""
}
