// Package valueid holds the ids of label values: sets of them, and columns that have one id for each row.
//
// An id numbers a value in one dictionary, from 1. 0 stands for a series without the label.
package valueid
