package source

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// knownAs is a file of known hosts in which address has the server's key.
func knownAs(t testing.TB, address string, server *sshServer) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "known_hosts")
	write(t, file, []byte(knownhosts.Line([]string{server.address}, server.hostKey)+"\n"+knownhosts.Line([]string{address}, server.hostKey)+"\n"))
	return file
}

func TestSFTP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "q2", "a b?.pdf"), pdf())
	write(t, filepath.Join(dir, "empty.pdf"), nil)
	write(t, filepath.Join(dir, "large.pdf"), nil)
	must(t, os.Truncate(filepath.Join(dir, "large.pdf"), 1<<30))
	server := newSSHServer(t, realSFTP(dir))
	s := open(t, Config{SFTP: server.login(), MaxBytes: 1 << 20})
	for range 2 {
		for path, want := range map[string]string{
			"/q2/a%20b%3F.pdf": "fine",
			"/q2/missing.pdf":  "transient not-found 1m0s",
			"/q2":              "poison not-a-pdf",
			"/empty.pdf":       "transient still-uploading 30s",
			"/large.pdf":       "poison too-large",
		} {
			if got, err := fetched(t, s, "sftp://"+server.address+dir+path, pdf()); got != want {
				t.Errorf("%s: got %s (%v), want %s", path, got, err, want)
			}
		}
	}
}

// A connection serves many files, one after the other. One that the server has closed serves none.
func TestSFTPPool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.pdf"), pdf())
	server := newSSHServer(t, realSFTP(dir))
	s := open(t, Config{SFTP: server.login()})
	fetch := func() {
		t.Helper()
		if got, err := fetched(t, s, "sftp://"+server.address+dir+"/a.pdf", pdf()); got != "fine" {
			t.Errorf("got %s (%v)", got, err)
		}
	}
	fetch()
	if got, err := fetched(t, s, "sftp://"+server.address+dir+"/missing.pdf", nil); got != "transient not-found 1m0s" {
		t.Errorf("missing: got %s (%v)", got, err)
	}
	fetch()
	if n := server.logins.Load(); n != 1 {
		t.Errorf("%d logins for three fetches, want 1", n)
	}
	s.sftp.mu.Lock()
	idle := s.sftp.idle[server.address][0]
	s.sftp.mu.Unlock()
	idle.cut()
	_ = idle.client.Wait()
	s.sftp.discard(idle) // what its watcher does at the same time
	fetch()
	if n := server.logins.Load(); n != 2 {
		t.Errorf("%d logins after the connection ended, want 2", n)
	}
}

// A download may end early without an error, or be of a file that grows.
func TestSFTPShort(t *testing.T) {
	t.Parallel()
	server := newSSHServer(t, stubSFTP)
	s := open(t, Config{SFTP: server.login()})
	for path, want := range map[string]string{"/short": "transient short-read", "/growing": "transient still-uploading 30s"} {
		if got, err := fetched(t, s, "sftp://"+server.address+path, nil); got != want {
			t.Errorf("%s: got %s (%v), want %s", path, got, err, want)
		}
	}
}

// A host that lets us in, but has no SFTP to offer, is not there for now.
func TestNoSFTP(t *testing.T) {
	t.Parallel()
	server := newSSHServer(t, func(io.ReadWriteCloser) {})
	if got, err := fetched(t, open(t, Config{SFTP: server.login()}), "sftp://"+server.address+"/a.pdf", nil); got != "transient connection" {
		t.Errorf("got %s (%v)", got, err)
	}
}

func TestSFTPLogin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.pdf"), pdf())
	server := newSSHServer(t, realSFTP(dir))
	good := server.login()
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "file")
		write(t, path, []byte(content))
		return path
	}
	other, _ := newKey(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	curveKey, err := ssh.NewPublicKey(&curve.PublicKey)
	must(t, err)
	otherKey, err := ssh.NewSignerFromKey(other)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(other, "")
	must(t, err)
	otherFile := file(string(pem.EncodeToMemory(block)))
	line := func(key ssh.PublicKey) string { return knownhosts.Line([]string{server.address}, key) + "\n" }
	right := line(server.hostKey)
	closing := listen(t, func(net.Conn) {})
	for name, tt := range map[string]struct {
		login func(*SFTP)
		want  string
	}{
		"not configured":      {func(c *SFTP) { *c = SFTP{} }, "hold unauthorized"},
		"no known hosts":      {func(c *SFTP) { c.KnownHosts = filepath.Join(dir, "none") }, "hold host-key"},
		"garbled known hosts": {func(c *SFTP) { c.KnownHosts = file("x y z\n") }, "hold host-key"},
		"empty known hosts":   {func(c *SFTP) { c.KnownHosts = file("") }, "hold host-key"},
		"another key":         {func(c *SFTP) { c.KnownHosts = file(line(otherKey.PublicKey())) }, "hold host-key"},
		"another kind of key": {func(c *SFTP) { c.KnownHosts = file(line(curveKey)) }, "hold host-key"},
		"a revoked key":       {func(c *SFTP) { c.KnownHosts = file("@revoked " + right + right) }, "hold host-key"},
		"no way to log in":    {func(c *SFTP) { c.Password = "" }, "hold unauthorized"},
		"wrong password":      {func(c *SFTP) { c.Password = secret + "x" }, "hold unauthorized"},
		"wrong user":          {func(c *SFTP) { c.User = "x" }, "hold unauthorized"},
		"wrong key":           {func(c *SFTP) { c.Password, c.KeyFile = "", otherFile }, "hold unauthorized"},
		"no agent":            {func(c *SFTP) { c.AgentSocket = filepath.Join(dir, "none") }, "hold unauthorized"},
		"wrong key, password": {func(c *SFTP) { c.KeyFile = otherFile }, "fine"},
		"two kinds of key":    {func(c *SFTP) { c.KnownHosts = file(line(curveKey) + right) }, "fine"},
		"password":            {func(*SFTP) {}, "fine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{SFTP: good})
			tt.login(&s.sftp.cfg) // files change while it runs
			if got, err := fetched(t, s, "sftp://"+server.address+dir+"/a.pdf", pdf()); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
		})
	}
	cfg := good
	cfg.KnownHosts = knownAs(t, closing, server)
	if got, err := fetched(t, open(t, Config{SFTP: cfg}), "sftp://"+closing+"/a.pdf", nil); got != "transient connection" {
		t.Errorf("closed before the banner: got %s (%v)", got, err)
	}
}

func TestSFTPKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.pdf"), pdf())
	server := newSSHServer(t, realSFTP(dir))
	private, signer := newKey(t)
	server.clientKey = signer.PublicKey()
	block, err := ssh.MarshalPrivateKey(private, "")
	must(t, err)
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(secret))
	must(t, err)
	keyFile, lockedFile := filepath.Join(dir, "key"), filepath.Join(dir, "locked")
	write(t, keyFile, pem.EncodeToMemory(block))
	write(t, lockedFile, pem.EncodeToMemory(locked))
	ring := agent.NewKeyring()
	must(t, ring.Add(agent.AddedKey{PrivateKey: private}))
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if err := agent.ServeAgent(ring, conn); err != io.EOF {
				t.Errorf("agent: %v", err)
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	for name, cfg := range map[string]SFTP{"key": {KeyFile: keyFile}, "agent": {AgentSocket: socket}} {
		cfg.User, cfg.KnownHosts = "guyline", server.knownHosts
		if got, err := fetched(t, open(t, Config{SFTP: cfg}), "sftp://"+server.address+dir+"/a.pdf", pdf()); got != "fine" {
			t.Errorf("%s: got %s (%v)", name, got, err)
		}
	}
	if _, err := newSSHPool(SFTP{User: "x", KeyFile: lockedFile}, nil, nil); err == nil || !strings.Contains(err.Error(), "passphrase") {
		t.Errorf("a locked key: %v", err)
	}
}
