package integration_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/promises.md names exists.
func TestPromisesAreShown(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = fs.WalkDir(os.DirFS(".."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile("../" + path)
		tests.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(page), -1)
	if len(named) < 12 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, name := range named {
		if !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("%s does not exist", name)
		}
	}
}
