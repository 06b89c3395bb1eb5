/* The version, in one place: the Makefile and the rockspec check read it from here. */
#ifndef PR_VERSION_H
#define PR_VERSION_H

#define PIERROT_VERSION "0.1.0"

#endif
