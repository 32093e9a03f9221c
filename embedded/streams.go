package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

// checkStreams makes sure that every stream with messages on the disk has come back. A directory
// without messages is a creation cut short, and is nothing.
func checkStreams(srv *server.Server, dir string) error {
	root := filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams")
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list its streams: %w", bare(err))
	}
	back, err := streamNames(srv)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !back[e.Name()] && hasMessages(filepath.Join(root, e.Name())) {
			return fmt.Errorf("stream %s is damaged and did not come back; restore the directory from a backup, or look at %s",
				e.Name(), filepath.Join(root, e.Name()))
		}
	}
	return nil
}

// streamNames returns the streams the server knows.
func streamNames(srv *server.Server) (map[string]bool, error) {
	info, err := srv.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return nil, fmt.Errorf("ask the server for its streams: %w", err)
	}
	names := make(map[string]bool)
	for _, account := range info.AccountDetails {
		for _, s := range account.Streams {
			names[s.Name] = true
		}
	}
	return names, nil
}

// hasMessages reports whether a stream's directory holds a message block that is not empty.
func hasMessages(stream string) bool {
	blocks, err := os.ReadDir(filepath.Join(stream, "msgs"))
	if err != nil {
		return false
	}
	for _, b := range blocks {
		if fi, err := b.Info(); err == nil && filepath.Ext(b.Name()) == ".blk" && fi.Size() > 0 {
			return true
		}
	}
	return false
}
