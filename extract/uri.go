package extract

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/guyline/guyline/report"
)

// pathBelow turns a source URI into a path relative to root, an absolute directory. It looks at the spelling
// only; symbolic links are the business of [os.Root].
//
// Relative paths are below root; absolute ones must be inside it. A file: URI is percent-decoded and may name
// no host but localhost. Anything else with "://" has a scheme for which there is no fetcher.
func pathBelow(root, uri string) (string, error) {
	path := uri
	scheme, _, found := strings.Cut(uri, "://")
	switch {
	case len(uri) >= 5 && strings.EqualFold(uri[:5], "file:"):
		var err error
		if path, err = filePath(uri[5:]); err != nil {
			return "", err
		}
	case found && isScheme(scheme):
		return "", report.Poison(report.CodeUnsupportedScheme,
			fmt.Errorf("this build cannot fetch %s: it reads plain paths and file: URIs; deliver the file below the file root", strings.ToLower(scheme)))
	}
	if path == "" || strings.ContainsRune(path, 0) {
		return "", report.Poison(report.CodeInvalidEvent, errors.New("the path is empty or contains a NUL byte; correct source_uri"))
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
	return path, nil
}

var errOutside = report.Poison(report.CodeOutsideRoot,
	errors.New("the path leads outside the file root; move the file below the root, or let the root include it"))

// filePath is the path that a file: URI names, without its "file:".
func filePath(rest string) (string, error) {
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		host, _, _ := strings.Cut(after, "/")
		if host != "" && !strings.EqualFold(host, "localhost") {
			return "", report.Poison(report.CodeOutsideRoot,
				fmt.Errorf("the file: URI names the host %q, but only this worker's files can be read; file:///path is absolute, a plain path is below the file root", host))
		}
		rest = after[len(host):]
	}
	if strings.ContainsAny(rest, "?#") {
		return "", report.Poison(report.CodeInvalidEvent, errors.New("a file: URI has no query or fragment; write ? as %3F and # as %23"))
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return "", report.Poison(report.CodeInvalidEvent, fmt.Errorf("the file: URI cannot be decoded: %w; write %% as %%25", err))
	}
	return path, nil
}

// isScheme follows RFC 3986, section 3.1.
func isScheme(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	s = strings.ToLower(s)
	return s != "" && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"0123456789+-.") == ""
}
