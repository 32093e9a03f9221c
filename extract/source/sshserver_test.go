package source

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshServer is a real SSH server on loopback, whose SFTP subsystem is a function.
type sshServer struct {
	address    string
	hostKey    ssh.PublicKey
	clientKey  ssh.PublicKey // is let in, beside the password; nil = none
	knownHosts string        // a file
	logins     atomic.Int32
}

func (s *sshServer) login() SFTP {
	return SFTP{User: "guyline", Password: secret, KnownHosts: s.knownHosts}
}

func newKey(t testing.TB) (ed25519.PrivateKey, ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	must(t, err)
	return key, signer
}

func newSSHServer(t testing.TB, subsystem func(io.ReadWriteCloser)) *sshServer {
	t.Helper()
	_, host := newKey(t)
	s := &sshServer{hostKey: host.PublicKey(), knownHosts: filepath.Join(t.TempDir(), "known_hosts")}
	config := &ssh.ServerConfig{
		PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if c.User() != "guyline" || string(password) != secret {
				return nil, errors.New("no")
			}
			return nil, nil
		},
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if s.clientKey == nil || string(key.Marshal()) != string(s.clientKey.Marshal()) {
				return nil, errors.New("no")
			}
			return nil, nil
		},
	}
	config.AddHostKey(host)
	s.address = listen(t, func(conn net.Conn) {
		server, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			return
		}
		s.logins.Add(1)
		var wg sync.WaitGroup
		wg.Go(func() { ssh.DiscardRequests(requests) })
		for offered := range channels {
			channel, asked, err := offered.Accept()
			if err != nil {
				continue
			}
			wg.Go(func() {
				for req := range asked {
					_ = req.Reply(req.Type == "subsystem", nil)
					if req.Type == "subsystem" {
						subsystem(channel)
						channel.Close()
					}
				}
			})
		}
		server.Close()
		wg.Wait()
	})
	write(t, s.knownHosts, []byte(knownhosts.Line([]string{knownhosts.Normalize(s.address)}, s.hostKey)+"\n"))
	return s
}

// listen serves connections on loopback until the test ends.
func listen(t testing.TB, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// realSFTP serves a directory with the server of pkg/sftp.
func realSFTP(dir string) func(io.ReadWriteCloser) {
	return func(channel io.ReadWriteCloser) {
		server, err := sftp.NewServer(channel, sftp.ReadOnly(), sftp.WithServerWorkingDirectory(dir))
		if err == nil {
			_ = server.Serve()
			server.Close()
		}
	}
}

// stubSFTP speaks just enough of the protocol to misbehave: /status/N is answered with status N, /short ends after
// 65,536 of 200,000 bytes, /growing has another size at each look, and /silent never comes.
func stubSFTP(channel io.ReadWriteCloser) {
	var open string
	looks := uint64(0)
	for {
		header := make([]byte, 4)
		if _, err := io.ReadFull(channel, header); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint32(header))
		if _, err := io.ReadFull(channel, packet); err != nil || len(packet) < 5 {
			return
		}
		id, rest := packet[1:5], packet[5:]
		answer := func(kind byte, body []byte) {
			out := binary.BigEndian.AppendUint32(nil, uint32(5+len(body)))
			channel.Write(append(append(append(out, kind), id...), body...))
		}
		status := func(code uint32) {
			answer(101, binary.BigEndian.AppendUint32(nil, code)) // without a message, as old servers do
		}
		switch packet[0] {
		case 1: // INIT
			channel.Write([]byte{0, 0, 0, 5, 2, 0, 0, 0, 3})
		case 3: // OPEN
			open = string(rest[4 : 4+binary.BigEndian.Uint32(rest)])
			var code uint32
			if n, _ := fmt.Sscanf(open, "/status/%d", &code); n == 1 {
				status(code)
			} else if open != "/silent" {
				answer(102, []byte{0, 0, 0, 1, 'h'})
			}
		case 8: // FSTAT
			size := uint64(200_000)
			if looks++; strings.HasPrefix(open, "/growing") {
				size = 100_000 * looks
			}
			attributes := binary.BigEndian.AppendUint32(nil, 1|4) // size and permissions
			attributes = binary.BigEndian.AppendUint64(attributes, size)
			answer(105, binary.BigEndian.AppendUint32(attributes, 0o100644))
		case 5: // READ
			offset := binary.BigEndian.Uint64(rest[5:])
			n := min(uint64(binary.BigEndian.Uint32(rest[13:])), 65_536-min(offset, 65_536))
			if n == 0 {
				status(1)
			} else {
				answer(103, append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, n)...))
			}
		default: // CLOSE
			status(0)
		}
	}
}
