package columnar

import "strings"

// description is the tree of operators of a plan, a line each.
type description struct {
	lines []string
	depth int
}

func (d *description) node(text string, children ...interface{ describe(*description) }) {
	d.lines = append(d.lines, strings.Repeat("  ", d.depth)+text)
	d.depth++
	for _, c := range children {
		c.describe(d)
	}
	d.depth--
}
