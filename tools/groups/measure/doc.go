// Package measure puts many members, and many groups, on a broker, and says what that costs: a part of the speed table of
// pulsebench, and of tools/groups, which measures one of them with the sizes that are asked for.
package measure
