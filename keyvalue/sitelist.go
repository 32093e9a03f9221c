package keyvalue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/guyline/guyline/report"
)

// ReadSites reads a list of sites, each once and in its order: JSON lines with a site_id if the first character that is
// no blank is a brace, else CSV with a column site_id. Anything wrong in it is an error that names the line, as an import is all or nothing.
func ReadSites(r io.Reader) ([]string, error) {
	in := bufio.NewReader(r)
	jsonLines, err := report.Begins(in)
	if err != nil {
		return nil, err
	}
	var sites []string
	seen := map[string]bool{}
	add := func(line int, site string) error {
		if err := report.ValidateSite(site); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if !seen[site] {
			sites = append(sites, site)
		}
		seen[site] = true
		return nil
	}
	if jsonLines {
		err = sitesFromJSON(in, add)
	} else {
		err = sitesFromCSV(in, add)
	}
	if err == nil && len(sites) == 0 {
		err = errors.New("it names no site")
	}
	return sites, err
}

func sitesFromJSON(in io.Reader, add func(int, string) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, report.MaxMessage)
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		site, err := siteOf(lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := add(n, site); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n, err)
	}
	return nil
}

// siteOf reads the site_id of one JSON line, as strictly as an event's.
func siteOf(line []byte) (site string, err error) {
	fields, err := report.Fields(line)
	if err != nil {
		return "", err
	}
	if raw, ok := fields["site_id"]; ok && json.Unmarshal(raw, &site) != nil {
		return "", errors.New("site_id is not a string")
	}
	return site, nil
}

func sitesFromCSV(in io.Reader, add func(int, string) error) error {
	t := report.NewTable(in)
	header, _, err := t.Read()
	if err == io.EOF {
		return errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("line 1 is not a CSV header with a column site_id: %w", err)
	}
	column := slices.Index(header, "site_id")
	if column < 0 {
		return errors.New("line 1 is not a CSV header with a column site_id")
	}
	for {
		fields, line, err := t.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := add(line, fields[column]); err != nil {
			return err
		}
	}
}
