# Shared by venv.sh and lock.sh: find a Python, keep pip to the settings that say where packages
# come from.

die() {
    echo "mxdot: error: $*" >&2
    exit 1
}

# setuptools reads $NAME and {NAME} in paths as variables, venv refuses a colon, and no script has a
# first line with a control character in it.
check_path() {
    local path
    path=$(pwd -P && echo .) # or a line end at its end would go
    case ${path%??} in
        *[\${}:]* | *[[:cntrl:]]*)
            die "the path of the checkout must hold none of \$ { } : and no control characters," \
                "not $(printf %q "${path%??}")"
            ;;
    esac
}

# Prints the first usable interpreter; $PYTHON, when set, is the only candidate.
find_python() {
    local candidate candidates=(python3 python3.13 python3.12 python3.11)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        # A name on PATH may be a shim of a version manager that does not run: try it.
        if "$candidate" -c 'import sys, venv, ensurepip
sys.exit(not (3, 11) <= sys.version_info < (3, 14))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    die "no Python 3.11 to 3.13 with the venv module found; install one (Debian, Ubuntu:" \
        "apt install python3 python3-venv) or name it: make PYTHON=/path/to/python3"
}

# A user's pip settings must not redirect the installation (target, user, constraint ...).
isolate_pip() {
    local name
    for name in $(compgen -e); do
        case $name in
            PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_FIND_LINKS | PIP_NO_INDEX) ;;
            PIP_TRUSTED_HOST | PIP_CERT | PIP_CLIENT_CERT | PIP_PROXY) ;;
            PIP_DEFAULT_TIMEOUT | PIP_TIMEOUT | PIP_RETRIES | PIP_CACHE_DIR | PIP_CONFIG_FILE) ;;
            PIP_* | VIRTUAL_ENV | PYTHONPATH | PYTHONHOME) unset "$name" ;;
        esac
    done
    export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
}
