package embedded

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

const (
	startBytes  = 8  // random bytes in a start id
	secretBytes = 32 // random bytes in a token, after the start id
)

// holder is what the lock file says. The zero value is an unknown holder: one that has not written
// the file yet, or has emptied it already.
type holder struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
}

func (h holder) String() string {
	if h.PID == 0 {
		return "pid unknown"
	}
	return fmt.Sprintf("pid %d", h.PID)
}

func lockPath(dir string) string { return filepath.Join(dir, "guyline.lock") }

func urlPath(dir string) string { return filepath.Join(dir, "nats.url") }

// prepare makes the directory, or finds out that there is no store in it. A store restored from a
// backup has no lock file, one that is just being created has no data.
func prepare(dir string, create bool) error {
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("store %s: create it: %w: %w that can be made", dir, bare(err), ErrDirectory)
		}
		return nil
	}
	for _, path := range []string{lockPath(dir), filepath.Join(dir, server.JetStreamStoreDir)} {
		_, err := os.Stat(path)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("store %s: look for it: %w: %w that can be read", dir, bare(err), ErrDirectory)
		}
	}
	return fmt.Errorf("%w at %s", ErrNoStore, dir)
}

// takeOver removes what the last holder left and says who holds the store now.
func takeOver(dir string, h holder) error {
	if err := removeURL(dir); err != nil {
		return err
	}
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := os.WriteFile(lockPath(dir), append(line, '\n'), 0o600); err != nil {
		return fmt.Errorf("write its lock file: %w; make room, or make it writable", bare(err))
	}
	return nil
}

// release empties the lock file and lets the lock go. The file itself stays: were it removed, one
// process could lock the old file while another locks a new one.
func release(dir string, lock *flock.Flock) error {
	return errors.Join(os.Truncate(lockPath(dir), 0), lock.Unlock())
}

// readHolder reads the lock file. Half a line, or none, is an unknown holder.
func readHolder(dir string) holder {
	var h holder
	line, err := os.ReadFile(lockPath(dir))
	if err != nil || json.Unmarshal(line, &h) != nil {
		return holder{}
	}
	return h
}

// readURL returns the address in nats.url if it is the address of this holder.
func readURL(dir string, h holder) (string, bool) {
	line, err := os.ReadFile(urlPath(dir))
	if err != nil || len(h.Start) != hex.EncodedLen(startBytes) {
		return "", false
	}
	u, err := url.Parse(string(line))
	if err != nil || !strings.HasPrefix(u.User.Username(), h.Start) {
		return "", false
	}
	return u.String(), true
}

// writeURL publishes the address, whole or not at all. Only the holder writes, so that the
// temporary file needs no name of its own.
func writeURL(dir, address string) error {
	temp := urlPath(dir) + ".tmp"
	err := os.WriteFile(temp, []byte(address), 0o600)
	if err == nil {
		err = os.Rename(temp, urlPath(dir))
	}
	if err != nil {
		os.Remove(temp)
		return fmt.Errorf("write nats.url: %w; make room, or make it writable", bare(err))
	}
	return nil
}

// removeURL removes nats.url if it is there.
func removeURL(dir string) error {
	if err := os.Remove(urlPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove nats.url: %w; make the directory writable, or remove the file by hand", bare(err))
	}
	return nil
}

// bare takes operation and path off a file error; the message around it names both in its own words.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: it ends the program instead
	return hex.EncodeToString(b)
}
