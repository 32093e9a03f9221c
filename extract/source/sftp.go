package source

import (
	"context"
	"fmt"

	"github.com/guyline/guyline/report"
)

// fetchSFTP downloads a file over a connection that nobody else uses meanwhile. When ctx ends, the connection is cut.
func (s *Sources) fetchSFTP(ctx context.Context, address, path string, alive func()) (_ *File, err error) {
	c, err := s.sftp.take(ctx, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.cut)
	defer func() {
		if stop() && (err == nil || report.Classify(err).Code == report.CodeNotFound) {
			s.sftp.give(c)
		} else {
			c.close()
		}
	}()
	remote, err := c.files.Open(path)
	if err != nil {
		return nil, sftpError(err)
	}
	defer remote.Close()
	before, err := remote.Stat()
	if err != nil {
		return nil, sftpError(err)
	}
	if err := checkStat(before, s.cfg.MaxBytes); err != nil {
		return nil, err
	}
	f, err := s.spool(ctx, remote, -1, alive, sftpError)
	if err != nil {
		return nil, err
	}
	after, err := remote.Stat()
	switch {
	case err != nil:
		err = sftpError(err)
	case after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()):
		err = failure(faultUploading, 0, fmt.Errorf("the file changed while it was read, from %d to %d bytes", before.Size(), after.Size()))
	case f.Size != before.Size(): // a download can end early without an error
		err = failure(faultShort, 0, fmt.Errorf("%d bytes came, but the file has %d", f.Size, before.Size()))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	f.Came = "a file by SFTP"
	return f, nil
}
