package natstest

import (
	"net"
	"sync/atomic"
)

// Deaf is a client's way to the server on which the server's answers can be lost, as with a connection that dies right after a
// request. Give it to [Server.Conn] with nats.SetCustomDialer. While Lose is set nothing from the server arrives, on
// connections made before too; everything the client sends does.
type Deaf struct{ Lose atomic.Bool }

// Dial is called by the client library.
func (d *Deaf) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return nil, err
	}
	return deafConn{conn, d}, nil
}

type deafConn struct {
	net.Conn
	deaf *Deaf
}

func (c deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.deaf.Lose.Load() {
			return n, err
		}
	}
}
