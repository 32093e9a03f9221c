package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endpoint is where a worker process finds a server.
type endpoint struct {
	Addr   string // host:port on loopback
	Secret string // password or token; all servers listen on loopback, where other users are too
	Pid    int
}

// server is a server process that this process started.
type server struct {
	endpoint
	cmd   *exec.Cmd
	ended chan struct{}
	quit  os.Signal // ends it at once
}

// launch starts a server whose output goes to dir/log. It dies with this process, which must call launch from the thread it ends with.
func launch(cmd *exec.Cmd, dir string, at endpoint, quit syscall.Signal) (*server, error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // Ctrl-C is for this process, which then stops the server
	cmd.SysProcAttr.Pdeathsig = quit
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{endpoint: at, cmd: cmd, ended: make(chan struct{}), quit: quit}
	s.Pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// listening waits until the server accepts connections. If it does not, it is stopped, and the error has the end of its log.
func (s *server) listening(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		c, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(10 * time.Millisecond):
			continue
		case <-s.ended:
			err = errors.New("it ended")
		case <-ctx.Done():
		}
		s.stop()
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return fmt.Errorf("start %s: %w: %s", filepath.Base(s.cmd.Path), err, bytes.TrimSpace(log[max(0, len(log)-500):]))
	}
}

// stop ends the server, by force if it does not want to.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(s.quit)
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// freePort is a loopback address that nobody listened on a moment ago.
func freePort() (addr, port string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer l.Close()
	addr = l.Addr().String()
	_, port, err = net.SplitHostPort(addr)
	return addr, port, err
}

// findRedis and findPostgres return the programs of Debian's packages, or an error that says what to install.
func findRedis() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("there is no redis-server; apt-get install redis-server")
	}
	return path, nil
}

func findPostgres() (bin string, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return "", errors.New("there is no initdb of PostgreSQL; apt-get install postgresql")
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(major(a), major(b)) })
	return filepath.Dir(newest), nil
}

// major is 15 of /usr/lib/postgresql/15/bin/initdb, else 0.
func major(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// startRedis starts Redis with an append-only file. Its configuration comes by standard input, for the password's sake.
func startRedis(ctx context.Context, dir, secret string) (*server, error) {
	path, err := findRedis()
	if err != nil {
		return nil, err
	}
	addr, port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nrequirepass %s\nsave \"\"\nappendonly yes\nappendfsync everysec\n", port, dir, secret))
	s, err := launch(cmd, dir, endpoint{Addr: addr, Secret: secret}, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	return s, s.listening(ctx, dir)
}

// startPostgres starts PostgreSQL on a cluster of its own in dir, not as root: it refuses to.
func startPostgres(commit string) func(ctx context.Context, dir, secret string) (*server, error) {
	return func(ctx context.Context, dir, secret string) (*server, error) {
		bin, err := findPostgres()
		if err != nil {
			return nil, err
		}
		addr, port, err := freePort()
		if err != nil {
			return nil, err
		}
		who, err := notRoot(dir)
		if err != nil {
			return nil, err
		}
		pristine, err := cluster(ctx, filepath.Join(filepath.Dir(dir), "cluster"), bin, secret)
		if err != nil {
			return nil, err
		}
		data := filepath.Join(dir, "data")
		if out, err := exec.CommandContext(ctx, "cp", "-a", pristine, data).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("copy the cluster: %w: %s", err, bytes.TrimSpace(out))
		}
		cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-h", "127.0.0.1", "-k", "",
			"-c", "synchronous_commit="+commit, "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB", "-c", "max_connections=200", "-c", "jit=off")
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who}
		s, err := launch(cmd, dir, endpoint{Addr: addr, Secret: secret}, syscall.SIGQUIT)
		if err != nil {
			return nil, err
		}
		return s, s.listening(ctx, dir)
	}
}

// cluster makes a database cluster in dir that nobody has used, if there is none yet, and returns its place.
func cluster(ctx context.Context, dir, bin, secret string) (string, error) {
	data, password := filepath.Join(dir, "data"), filepath.Join(dir, "password")
	if _, err := os.Stat(data); err == nil {
		return data, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
		return "", err
	}
	who, err := notRoot(dir, password)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "peers", "-A", "scram-sha-256", "--pwfile", password,
		"-E", "UTF8", "--locale", "C", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	return data, nil
}

// notRoot returns whom PostgreSQL runs as and gives him the files, if this process runs as root; else nil: as this process.
func notRoot(files ...string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	for _, name := range files {
		if err := os.Chown(name, uid, gid); err != nil {
			return nil, err
		}
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
