package source

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// connect logs in to a host. Only a host whose key is known gets to see a login.
func (p *sshPool) connect(ctx context.Context, address string) (*sshConn, error) {
	if p.cfg.User == "" || p.cfg.KnownHosts == "" {
		return nil, failure(faultLogin, 0, errors.New("no SFTP user or no file of known hosts is configured"))
	}
	check, algorithms, err := hostKeys(p.cfg.KnownHosts, address)
	if err != nil {
		return nil, failure(faultHostKey, 0, err)
	}
	methods, release, err := p.methods(ctx)
	if err != nil {
		return nil, failure(faultLogin, 0, err)
	}
	defer release()
	raw, err := p.guard.dial(ctx, "tcp", address)
	if err != nil {
		return nil, wayError(err)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	conn, channels, requests, err := ssh.NewClientConn(raw, address, &ssh.ClientConfig{
		User: p.cfg.User, Auth: methods, HostKeyCallback: check, HostKeyAlgorithms: algorithms, ClientVersion: "SSH-2.0-Guyline",
	})
	if err != nil {
		raw.Close()
		return nil, p.loginError(address, err)
	}
	client := ssh.NewClient(conn, channels, requests)
	files, err := sftp.NewClient(client)
	if err != nil {
		client.Close()
		return nil, sftpError(fmt.Errorf("open SFTP: %w", err))
	}
	return &sshConn{address: address, client: client, files: files}, nil
}

// hostKeys returns the check of a host's key, and the kinds of key that are known of the host: asked for another kind,
// it would show a key that nobody knows.
func hostKeys(file, address string) (ssh.HostKeyCallback, []string, error) {
	check, err := readKnownHosts(file)
	if err != nil {
		return nil, nil, err
	}
	nobodys, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil {
		return nil, nil, err
	}
	var algorithms []string
	if known, ok := errors.AsType[*knownhosts.KeyError](check(address, &net.TCPAddr{}, nobodys)); ok {
		for _, key := range known.Want {
			if kind := key.Key.Type(); kind == ssh.KeyAlgoRSA {
				algorithms = append(algorithms, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512)
			} else {
				algorithms = append(algorithms, kind)
			}
		}
	}
	return check, algorithms, nil
}

func readKnownHosts(file string) (ssh.HostKeyCallback, error) {
	check, err := knownhosts.New(file)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return nil, fmt.Errorf("read the known hosts: %w", err)
	}
	return check, nil
}

// methods are the ways to log in: key, agent, password. They work until release is called.
func (p *sshPool) methods(ctx context.Context) (methods []ssh.AuthMethod, release func(), err error) {
	release = func() {}
	var signers []ssh.Signer
	if p.cfg.KeyFile != "" {
		key, err := readKey(p.cfg.KeyFile)
		if err != nil {
			return nil, nil, err
		}
		signers = append(signers, key)
	}
	if p.cfg.AgentSocket != "" {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.cfg.AgentSocket)
		if err != nil {
			return nil, nil, errors.New("the SSH agent cannot be reached")
		}
		_ = conn.SetDeadline(time.Now().Add(idleLimit))
		held, err := agent.NewClient(conn).Signers()
		if err != nil {
			conn.Close()
			return nil, nil, errors.New("the SSH agent does not list its keys")
		}
		signers, release = append(signers, held...), func() { conn.Close() }
	}
	if len(signers) > 0 {
		methods = append(methods, ssh.PublicKeys(signers...))
	}
	if p.cfg.Password != "" {
		methods = append(methods, ssh.Password(p.cfg.Password))
	}
	return methods, release, nil
}

func readKey(file string) (ssh.Signer, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return nil, fmt.Errorf("read the SSH key: %w", err)
	}
	key, err := ssh.ParsePrivateKey(b)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, errors.New("the SSH key has a passphrase; let an agent hold it")
	}
	if err != nil {
		return nil, errors.New("the SSH key cannot be read; it must be a private key as ssh-keygen writes it")
	}
	return key, nil
}

// loginError judges why no connection came about. A host key that is not the known one may be an attack.
func (p *sshPool) loginError(address string, err error) error {
	var revoked *knownhosts.RevokedError
	key, unknown := errors.AsType[*knownhosts.KeyError](err)
	_, strangers := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	switch {
	case errors.As(err, &revoked), unknown && len(key.Want) > 0:
		p.log.Error("an SFTP host shows another key than the known one", "host", address)
		return failure(faultHostKey, 0, errors.New("the host's key is not the known one, or is revoked: this may be an attack"))
	case unknown:
		return failure(faultHostKey, 0, errors.New("the host's key is not known"))
	case strangers:
		return failure(faultHostKey, 0, errors.New("the host has no key of a kind that is known of it, or shares no cipher with this worker"))
	case strings.Contains(err.Error(), "unable to authenticate"), strings.Contains(err.Error(), "authentication failures"): // package ssh has no value for it
		return failure(faultLogin, 0, errors.New("the host refuses the login"))
	}
	return sftpError(err)
}
