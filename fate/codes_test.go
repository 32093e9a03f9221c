package fate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

// codes reads the constants of type Code out of package report's source.
func codes(t *testing.T) (found []report.Code) {
	t.Helper()
	files, err := filepath.Glob("../report/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if typed, ok := spec.Type.(*ast.Ident); ok && typed.Name == "Code" {
				for _, v := range spec.Values {
					code, err := strconv.Unquote(v.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					found = append(found, report.Code(code))
				}
			}
			return true
		})
	}
	return found
}

// Every code has its words and at least one remedy, and no row is of a code that there is not.
func TestEveryCodeHasADiagnosis(t *testing.T) {
	t.Parallel()
	all := codes(t)
	if len(all) < 40 || len(all) != len(diagnoses) {
		t.Errorf("%d codes, %d rows", len(all), len(diagnoses))
	}
	for _, code := range all {
		d := diagnose(code, "https://portal.example")
		if d.cause == "" || d.help == 0 || strings.Contains(d.cause, `"`) {
			t.Errorf("%s: %+v", code, d)
		}
		if strings.Contains(d.cause, "the source") {
			t.Errorf("%s does not name its source: %s", code, d.cause)
		}
	}
}

// A replay sends the same bytes to the same place: what it cannot help gets another remedy.
func TestRemedies(t *testing.T) {
	t.Parallel()
	const repair, replay, discard = "`guyline dlq repair ", "`guyline dlq replay ", "`guyline dlq discard "
	for _, tt := range []struct {
		code     report.Code
		has, not []string
	}{
		{report.CodeCredentialsInURI, []string{repair, discard}, []string{replay, "file is repaired"}},
		{report.CodeUnsupportedScheme, []string{repair, discard}, []string{replay, "file is repaired"}},
		{report.CodeLinkExpired, []string{repair}, []string{replay, "file is repaired"}},
		{report.CodeBadRequest, []string{repair}, []string{replay, "file is repaired"}},
		{report.CodeInvalidEvent, []string{repair}, []string{replay, "published again"}},
		{report.CodeRefusedAddress, []string{repair, "configuration or permissions are changed, " + replay}, []string{"file is repaired"}},
		{report.CodeOutsideRoot, []string{repair, "configuration or permissions are changed, " + replay}, []string{"file is repaired"}},
		{report.CodeForbidden, []string{"configuration or permissions are changed, " + replay}, []string{repair, "file is repaired"}},
		{report.CodeMalformedPDF, []string{"file is repaired, " + replay}, []string{repair, "permissions"}},
		{"wrong-form", []string{"what the error names is corrected, " + replay, discard}, []string{repair}},
	} {
		a := letter(func(l *dlq.Letter) { l.Class, l.Code, l.Attempts = report.ClassPoison, tt.code, 1 })
		said := tell(facts{Answer: a}, now)
		for _, part := range tt.has {
			if !strings.Contains(said.Next, part) {
				t.Errorf("%s: %q lacks %q", tt.code, said.Next, part)
			}
		}
		for _, part := range tt.not {
			if strings.Contains(said.Next, part) {
				t.Errorf("%s: %q says %q, which cannot help", tt.code, said.Next, part)
			}
		}
	}
}
