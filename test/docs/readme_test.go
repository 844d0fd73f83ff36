package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	// longestSentence is the maximum number of words in a sentence.
	longestSentence = 30
	// longestPitch is the maximum number of words in the README's first paragraph.
	longestPitch = 25
)

// TestReadmeStartsShort checks that the README starts with a paragraph that says what Berth is, followed by three
// commands and a picture.
func TestReadmeStartsShort(t *testing.T) {
	parts := strings.SplitN(documents(t)["README.md"], "\n\n", 4)
	if len(parts) < 4 || !strings.HasPrefix(parts[0], "# ") {
		t.Fatal("the README has no title, first paragraph and commands")
	}
	if n := len(strings.Fields(parts[1])); n > longestPitch {
		t.Errorf("the first paragraph has %d words, at most %d are allowed: %s", n, longestPitch, parts[1])
	}
	commands := fenced(parts[2]+"\n", "sh")
	if len(commands) != 1 || strings.Count(commands[0], "\n") != 3 {
		t.Errorf("three commands should follow the first paragraph: %s", parts[2])
	}
	if !strings.HasPrefix(parts[3], "```\n") {
		t.Errorf("a picture should follow the commands: %.60s", parts[3])
	}
}

// TestReadmeListsTheDocuments checks that the index has a line for each page, with a description.
func TestReadmeListsTheDocuments(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no documents", err)
	}
	readme := documents(t)["README.md"]
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| \[[^]]+\]\(([^)]+\.md)\) \| [^|]+ \|$`).FindAllStringSubmatch(readme, -1) {
		listed[row[1]] = true
		if _, err := os.Stat(filepath.Join(root, row[1])); err != nil {
			t.Errorf("README.md lists %s: %v", row[1], err)
		}
	}
	for _, page := range append(pages, root+"/ARCHITECTURE.md", root+"/CHANGELOG.md", root+"/CONTRIBUTING.md", root+"/SECURITY.md") {
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		if !listed[name] {
			t.Errorf("the index in README.md does not list %s", name)
		}
		if _, checked := documents(t)[name]; !checked {
			t.Errorf("the tests of this package do not read %s", name)
		}
	}
}

// TestIndexListsThePages checks that the index of the documentation links to each page.
func TestIndexListsThePages(t *testing.T) {
	texts := documents(t)
	for page := range texts {
		name, ok := strings.CutPrefix(page, "docs/")
		if ok && name != "README.md" && !strings.Contains(texts["docs/README.md"], "]("+name+")") {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

// TestShortSentences counts the words of each sentence on all pages; table cells and list items count separately.
func TestShortSentences(t *testing.T) {
	for page, text := range documents(t) {
		for _, sentence := range sentences(text) {
			if n := len(strings.Fields(sentence)); n > longestSentence {
				t.Errorf("%s: a sentence of %d words, at most %d are allowed: %s", page, n, longestSentence, sentence)
			}
		}
	}
}

// TestLinksLead checks the file and the heading of each link between the documents.
func TestLinksLead(t *testing.T) {
	texts := documents(t)
	for page, text := range texts {
		for _, match := range regexp.MustCompile(`\]\(([^)#: ]*)(?:#([^)]*))?\)`).FindAllStringSubmatch(text, -1) {
			target := page
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(page), match[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], err)
			}
			if match[2] != "" && !anchors(texts[target])[match[2]] {
				t.Errorf("%s links to %s#%s, which is no heading", page, target, match[2])
			}
		}
	}
}

// anchors returns the names of a page's headings, as Markdown renderers make them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}

// sentences returns the sentences of a Markdown text, without code blocks (fenced or indented) and link targets.
func sentences(text string) []string {
	text = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "\n\n")
	text = regexp.MustCompile(`(?m)^    .*$`).ReplaceAllString(text, "\n\n")
	text = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(text, "]")
	// A list item, a heading or a table row begins a new sentence.
	text = regexp.MustCompile(`(?m)^(#+ |- |\|)`).ReplaceAllString(text, "\n\n")
	text = strings.ReplaceAll(text, "|", "\n\n")
	var all []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		all = append(all, regexp.MustCompile(`[.!?][")*]*\s`).Split(paragraph+"\n", -1)...)
	}
	return all
}

// TestSentences shows what counts as a sentence.
func TestSentences(t *testing.T) {
	text := "# A title\nOne two: three; four. Five six.\nSeven [eight](nine.md) v1.2 ten\n\n- eleven\n- twelve\n\n| a b | c |\n|---|---|\n```sh\ncode here\n```\n\n    $ indented code\n\nend?\n"
	var got []string
	for _, sentence := range sentences(text) {
		if words := strings.Join(strings.Fields(sentence), " "); words != "" {
			got = append(got, words)
		}
	}
	want := "A title One two: three; four|Five six|Seven [eight] v1.2 ten|eleven|twelve|a b|c|---|---|end"
	if joined := strings.Join(got, "|"); joined != want {
		t.Errorf("got  %s\nwant %s", joined, want)
	}
}
