package finding

import "fmt"

// Meant asks, behind the name of a word that is not known, whether another one was meant. Empty: none is near.
func Meant(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}

// Nearest returns the known word that was probably meant: the one with the fewest letters to change. Empty: none is so
// near that it could be a slip.
func Nearest(word string, known []string) string {
	best, limit := "", len(word)/2+1
	for _, k := range known {
		if d := distance(word, k); d < limit {
			best, limit = k, d
		}
	}
	return best
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
