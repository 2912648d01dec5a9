// Package notation writes plans in their long and their short notation. The two mean the same:
// they compile to the same plan.
//
// In the long notation every edge is a map of its six fields in the list `edges`, and no schema
// is left out that would follow from the rest; [Expand] writes it. In the short notation
// ([Shorten]) an edge is a reference of the node that it enters where that keeps the order of
// edges, since the first delivered one fills a port, and else an arrow. Both change the text of
// the file where it changes, and keep the rest with its comments. Where that is not possible, for
// instance since a part of it is repeated by an alias, they write the whole file anew.
package notation
