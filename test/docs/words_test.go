package docs

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// avoided are words that readers stumble over, with what the house says for them.
func avoided() map[string]string {
	return map[string]string{
		`anew`:             "again",
		`ghosts?`:          "ambiguous bind",
		`by lot`:           "at random",
		`(is|are) to have`: "desired",
		`shall`:            "must, or the present tense",
		`has it forgotten`: "has X forgotten",
		`not put back`:     "not restored",
	}
}

// TestPlainWords finds avoided words in the comments of all Go code, and on all pages. Code between backquotes does not
// count.
func TestPlainWords(t *testing.T) {
	words := map[*regexp.Regexp]string{}
	for word, instead := range avoided() {
		words[regexp.MustCompile(`\b`+word+`\b`)] = instead
	}
	code := regexp.MustCompile("`[^`]*`")
	err := eachText("../..", func(name, text string) {
		text = code.ReplaceAllString(text, "")
		for word, instead := range words {
			if found := word.FindString(text); found != "" {
				t.Errorf("%s says %q: better %s", name, found, instead)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// eachText visits the comments of the Go files below a folder, each as one text, and its pages line by line.
func eachText(root string, visit func(name, text string)) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go"):
			return eachComment(name, visit)
		case strings.HasSuffix(name, ".md"):
			text, err := os.ReadFile(name)
			for i, line := range strings.Split(string(text), "\n") {
				visit(fmt.Sprintf("%s:%d", name, i+1), line)
			}
			return err
		}
		return nil
	})
}

// eachComment visits the comments of one Go file.
func eachComment(name string, visit func(name, text string)) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, c := range parsed.Comments {
		visit(files.Position(c.Pos()).String(), strings.Join(strings.Fields(c.Text()), " "))
	}
	return nil
}
