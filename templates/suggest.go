package templates

import "fmt"

// suggestion returns ", did you mean ...?" for the nearest name that is near enough to be a slip.
func suggestion(name string, names []string) string {
	best, limit := "", len(name)/2+1
	for _, n := range names {
		if d := distance(name, n); d < limit {
			best, limit = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// distance is the number of single-byte edits between two words (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
