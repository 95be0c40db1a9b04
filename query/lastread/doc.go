// Package lastread remembers when queries last read each metric, in bounded memory. It shows which metrics nobody reads.
package lastread
