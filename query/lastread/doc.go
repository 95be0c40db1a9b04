// Package lastread records when queries last read each metric, in bounded memory. It shows which metrics no query reads.
package lastread
