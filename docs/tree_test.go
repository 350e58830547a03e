package docs

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTree: docs/README.md, from which the site's sidebar is made, leads to each page for users. With -v it prints all pages by folder,
// with their words; a page that only says where its text went counts as moved.
func TestTree(t *testing.T) {
	listed := map[string]bool{"README.md": true}
	for _, m := range regexp.MustCompile(`\]\(([^)#\s:]+\.md)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		listed[filepath.Clean(m[1])] = true
	}
	words, folders := map[string]int{}, map[string][]string{}
	for _, path := range pages(t) {
		text := read(t, path)
		folder := filepath.Dir(path)
		if strings.HasPrefix(text, "Moved to [") {
			folder = "moved"
		}
		words[path] = wordsOf(text)
		folders[folder] = append(folders[folder], path)
		byFolder := folder == "moved" || strings.HasPrefix(path, "reference/ccmadm") ||
			slices.Contains([]string{"adr", "design", "contributing"}, folder) // the site lists these by folder
		if !listed[path] && !byFolder {
			t.Errorf("docs/README.md does not lead to %s: add a link where readers look for it", path)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		sum := 0
		for _, path := range folders[folder] {
			sum += words[path]
		}
		t.Logf("%s: %d pages, %d words", folder, len(folders[folder]), sum)
		for _, path := range folders[folder] {
			t.Logf("  %5d %s", words[path], path)
		}
	}
}

// wordsOf counts what readers see: comments are for the source.
func wordsOf(text string) int {
	return len(strings.Fields(regexp.MustCompile(`<!-- .* -->`).ReplaceAllString(text, "")))
}
