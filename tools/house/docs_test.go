package house

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mapEntry is a row of a map of folders: | `core` | ... |
var mapEntry = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|")

func TestDocumentsMapTheFolders(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var present []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && !skipped[entry.Name()] {
			present = append(present, entry.Name())
		}
	}
	mapsFolders(t, "README.md", "Folders", present)
	// Which folders hold programs' source; documents import nothing.
	mapsFolders(t, "docs/ARCHITECTURE.md", "Folders and what they may import", slices.DeleteFunc(present, func(name string) bool { return name == "docs" || name == "deploy" }))
}

func mapsFolders(t *testing.T, file, title string, present []string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, file), "\n## "+title+"\n")
	if !found {
		t.Fatalf("%s has no section %s", file, title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var mapped []string
	for _, match := range mapEntry.FindAllStringSubmatch(section, -1) {
		mapped = append(mapped, match[1])
	}
	for _, name := range present {
		if !slices.Contains(mapped, name) {
			t.Errorf("%s maps no folder %s", file, name)
		}
	}
	for _, name := range mapped {
		if !slices.Contains(present, name) {
			t.Errorf("%s maps folder %s, which there is none of", file, name)
		}
	}
}

func TestREADMENamesTargetsThatExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, match := range regexp.MustCompile("(?m)(?:`|^    )make ([a-z]+)").FindAllStringSubmatch(read(t, "README.md"), -1) {
		if !strings.Contains(makefile, "\n"+match[1]+":") {
			t.Errorf("README.md names make %s, which is no target", match[1])
		}
	}
}

func TestMakeListsEveryTarget(t *testing.T) {
	makefile := read(t, "Makefile")
	targets := regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).FindAllStringSubmatch(makefile, -1)
	for _, target := range targets {
		if !regexp.MustCompile(`(?m)^` + target[1] + `:.* ## \S`).MatchString(makefile) {
			t.Errorf("make %s has no description behind ##", target[1])
		}
	}
	if len(targets) == 0 {
		t.Error("the Makefile declares no targets")
	}
}

func TestDecisionsAreListed(t *testing.T) {
	index := read(t, "docs/adr/README.md")
	name := regexp.MustCompile(`^docs/adr/(\d{4})-[a-z0-9-]+\.md$`)
	numbers := make(map[string]string)
	for _, file := range files(t, ".md") {
		match := name.FindStringSubmatch(file)
		switch {
		case path.Dir(file) != "docs/adr" || file == "docs/adr/README.md":
			continue
		case match == nil:
			t.Errorf("%s: decisions are named NNNN-what.md", file)
			continue
		case numbers[match[1]] != "":
			t.Errorf("%s has the number of %s", file, numbers[match[1]])
		}
		numbers[match[1]] = file
		text := read(t, file)
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		if !strings.Contains(index, "]("+path.Base(file)+")") || !strings.Contains(index, title) {
			t.Errorf("docs/adr/README.md does not list %s under its title %q", file, title)
		}
		for _, section := range []string{"Context", "Options", "Decision", "Consequences"} {
			if !strings.Contains(text, "\n## "+section+"\n") {
				t.Errorf("%s has no section %s", file, section)
			}
		}
	}
}

// Each library that a module asks for itself is explained in one decision, and
// none is explained that no module asks for.
func TestDependenciesAreExplained(t *testing.T) {
	text := read(t, "docs/adr/0008-dependencies.md")
	asked := make(map[string]bool)
	for _, file := range files(t, "go.mod") {
		if file == "tools/lint/go.mod" {
			continue
		}
		for line := range strings.Lines(read(t, file)) {
			fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
			if len(fields) != 2 || !strings.Contains(fields[0], "/") || strings.HasPrefix(fields[0], module) || !strings.HasPrefix(fields[1], "v") {
				continue // not a requirement, or an indirect one, which has a comment
			}
			asked[fields[0]] = true
			if !strings.Contains(text, "`"+fields[0]+"`") || !strings.Contains(text, fields[1]) {
				t.Errorf("%s asks for %s %s; docs/adr/0008-dependencies.md says nothing of it, or of another version", file, fields[0], fields[1])
			}
		}
	}
	if !exists("cmd/pulsemq/broker.go") {
		return // libraries come with the parts that need them
	}
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(text, -1) {
		if !asked[match[1]] {
			t.Errorf("docs/adr/0008-dependencies.md explains %s, which no module asks for", match[1])
		}
	}
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeBlock    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor  = regexp.MustCompile(`[^a-z0-9 _-]`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, file := range files(t, ".md") {
		if strings.HasPrefix(file, "tools/gen/prose/") {
			continue // parts of docs/protocol, where their links lead
		}
		for _, match := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(t, file), ""), -1) {
			link := match[1]
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			target, anchor, _ := strings.Cut(link, "#")
			if target == "" {
				target = file
			} else {
				target = path.Join(path.Dir(file), target)
			}
			if strings.HasPrefix(target, "..") || !exists(target) {
				t.Errorf("%s links to %s, which is not there", file, link)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", file, link, target)
			}
		}
	}
}

var sourceFile = regexp.MustCompile("`([a-z]+/[a-z0-9_/*]+\\.go)`")

func TestDocumentsNameSourceFilesThatExist(t *testing.T) {
	for _, file := range files(t, ".md") {
		for _, match := range sourceFile.FindAllStringSubmatch(read(t, file), -1) {
			if !slices.ContainsFunc(files(t, ".go"), func(name string) bool {
				matches, err := path.Match(match[1], name)
				return err == nil && matches
			}) {
				t.Errorf("%s names %s, which is not there", file, match[1])
			}
		}
	}
}

// anchors are the names under which a document's headings can be linked to.
func anchors(text string) []string {
	var names []string
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// A default that stands twice is the first one, whatever the second says: `make sim` made a few runs instead of hundreds.
func TestMakeDefaultsStandOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z]+)\s*\?=`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		if seen[m[1]] {
			t.Errorf("the Makefile gives %s a default twice; the second has no effect", m[1])
		}
		seen[m[1]] = true
	}
}
