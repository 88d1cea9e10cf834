#!/bin/sh
# Run once by the postgres image: a role for Tenfold that is no superuser, for whom row-level security holds.
set -e
psql -v ON_ERROR_STOP=1 -v password="$TENFOLD_PASSWORD" <<'SQL'
CREATE ROLE tenfold LOGIN PASSWORD :'password';
CREATE DATABASE tenfold OWNER tenfold;
SQL
