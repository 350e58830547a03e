package finding

import (
	"slices"
	"strings"
	"testing"
)

// Each symptom leads to something in the catalogue, and the page shows each once, under its place.
func TestSymptoms(t *testing.T) {
	page := Troubleshooting("# Troubleshooting\n")
	var places []string
	for _, s := range Symptoms() {
		for _, id := range s.IDs {
			if _, known := Lookup(string(id)); !known {
				t.Errorf("%s: %s is not in the catalogue", s.Text, id)
			}
		}
		if len(s.IDs) == 0 || strings.Count(page, "### "+s.heading()+"\n") != 1 {
			t.Errorf("%s: %v, and not once in the page", s.Text, s.IDs)
		}
		if slices.Contains(places, s.Where) && places[len(places)-1] != s.Where {
			t.Errorf("%s: %s has two sections", s.Text, s.Where)
		}
		if !slices.Contains(places, s.Where) {
			places = append(places, s.Where)
		}
	}
}
