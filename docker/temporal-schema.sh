#!/bin/sh
# Creates Temporal's two databases and migrates their schemas. Does nothing if they are up to date.
set -eu

schemas=/etc/temporal/schema/postgresql/v12
export SQL_PLUGIN=postgres12 SQL_HOST="$POSTGRES_HOST" SQL_PORT=5432 SQL_USER="$POSTGRES_USER"

prepare() {
  temporal-sql-tool --db "$1" create
  temporal-sql-tool --db "$1" setup-schema -v 0.0
  temporal-sql-tool --db "$1" update-schema -d "$schemas/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
