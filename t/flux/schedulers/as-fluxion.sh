# For flux-sched's own tests, whose folder sharness.d it is copied to: sched-treepool, from the file
# $AS_FLUXION, is what they take for sched-fluxion-qmanager. Fluxion's other modules are not there:
# to load one does nothing, and whoever removes it ends the scheduler, as it does with Fluxion.
flux() {
    case "$1 $2 $*" in
    "module load "*sched-fluxion-qmanager*)
        shift 3
        echo sched-treepool >>"$TREEPOOL_TEST_LOADED"
        command flux module load --name=sched-fluxion-qmanager "$AS_FLUXION" "$@" ;;
    "module load "*sched-fluxion-*) ;;
    "module reload "*sched-fluxion-* | "module remove "*sched-fluxion-*)
        command flux module remove -f sched-fluxion-qmanager 2>/dev/null || true ;;
    *)
        command flux "$@" ;;
    esac
}
