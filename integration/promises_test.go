package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/promises.md names is in the room that it names.
func TestPromisesAreShown(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{} // by room
	var rooms []string           // named last, and the tests after them are there
	named := 0
	for _, word := range regexp.MustCompile("`[a-z/]+`(?: and `[a-z/]+`)?|\\bTest[A-Z]\\w*").FindAllString(string(page), -1) {
		if strings.HasPrefix(word, "`") {
			rooms = strings.Split(strings.ReplaceAll(word, "`", ""), " and ")
			continue
		}
		named++
		for _, room := range rooms {
			if tests[room] == "" {
				tests[room] = testsOf(t, room)
			}
			if !strings.Contains(tests[room], "func "+word+"(") {
				t.Errorf("%s has no %s", room, word)
			}
		}
	}
	if named < 12 {
		t.Errorf("the page names %d tests", named)
	}
}

// testsOf is all test files of a room.
func testsOf(t *testing.T, room string) string {
	t.Helper()
	files, err := filepath.Glob("../" + room + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
