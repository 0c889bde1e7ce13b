/* svc-launcher.exe: loads CPython from the folder "app" beside this program and runs app\start.pyc.
 *
 * A copy without that folder beside it starts an installed version instead. Its path stays the same
 * when the launcher updates itself. next.txt names a version to try, which is then in tried.txt;
 * otherwise current.txt names the version that works (svcserver/launcher/own_program.py). */
#include <windows.h>
#include <stdlib.h>
#include <wchar.h>

#define ROOM 32768 /* the longest path of Windows */
#define LONGEST 64 /* of a version */

int _dowildcard = 0; /* the C runtime would take the ? of an invite for a pattern of file names */

/* the parts of CPython's interface that this program uses; PyStatus and PyConfig in its documentation */
typedef struct { int type; const char *function, *fault; int status; } py_status;
typedef void (*py_defaults)(void *);
typedef py_status (*py_arguments)(void *, intptr_t, wchar_t *const *);
typedef py_status (*py_initialize)(const void *);
typedef int (*py_run)(void);

static long long config[1024]; /* larger than PyConfig, which CPython fills in */
static wchar_t own[ROOM], folder[ROOM], path[ROOM + LONGEST + 64], line[2 * ROOM + LONGEST + 64];

/* CPython ends at once when a standard stream is missing or cannot be used, so it gets NUL instead. */
static void open_stream(DWORD which, DWORD access)
{
    HANDLE there = GetStdHandle(which);
    if (there == NULL || there == INVALID_HANDLE_VALUE || GetFileType(there) == FILE_TYPE_UNKNOWN)
        SetStdHandle(which, CreateFileW(L"NUL", access, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL));
}

/* Say which part of the launcher is missing or damaged: in a dialog, or on the standard error of a console. */
static int fail(const wchar_t *part, const wchar_t *cause)
{
    static wchar_t text[2 * ROOM];
    static char bytes[6 * ROOM];
    wchar_t number[32];
    DWORD written;
    _snwprintf(number, 32, L"error %lu", GetLastError());
    _snwprintf(text, 2 * ROOM - 1, L"The launcher cannot start, because a part of it is missing or damaged:\n%ls (%ls)\n"
        L"Unzip the whole folder again, then start the launcher in it.\n", part, cause ? cause : number);
    if (!wcsstr(own, L"-cli.exe"))
        MessageBoxW(NULL, text, L"svc launcher", MB_ICONERROR | MB_SETFOREGROUND);
    else if (!WriteConsoleW(GetStdHandle(STD_ERROR_HANDLE), text, wcslen(text), &written, NULL)) {
        int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, bytes, sizeof bytes, NULL, NULL);
        WriteFile(GetStdHandle(STD_ERROR_HANDLE), bytes, length ? length - 1 : 0, &written, NULL);
    }
    return 1;
}

/* Set the path of this program in the version that a file names; return 0 if there is none. */
static int find_version(const wchar_t *name, const wchar_t *program)
{
    char version[LONGEST + 1] = "";
    DWORD length = 0;
    _snwprintf(path, ROOM, L"%ls%ls", folder, name);
    HANDLE file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return 0;
    if (!ReadFile(file, version, LONGEST, &length, NULL))
        length = 0;
    CloseHandle(file);
    version[length] = 0;
    if (!length || strspn(version, "0123456789abcdefghijklmnopqrstuvwxyz.+") != length || strstr(version, ".."))
        return 0;
    _snwprintf(path, ROOM + LONGEST, L"%ls%hs\\%ls", folder, version, program);
    return GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES;
}

/* Start a version with the arguments of this program; with a console, wait until it ends. */
static int start_version(const wchar_t *program)
{
    static wchar_t next[ROOM + 16], tried[ROOM + 16];
    STARTUPINFOW how = {sizeof how};
    PROCESS_INFORMATION started;
    DWORD status = 0;
    _snwprintf(next, ROOM + 15, L"%lsnext.txt", folder);
    _snwprintf(tried, ROOM + 15, L"%lstried.txt", folder);
    if (!(find_version(L"next.txt", program) && MoveFileExW(next, tried, MOVEFILE_REPLACE_EXISTING))
        && !find_version(L"current.txt", program))
        return fail(path, NULL);
    const wchar_t *words = GetCommandLineW();
    int quoted = 0;
    while (*words && (quoted || (*words != L' ' && *words != L'\t')))
        if (*words++ == L'"')
            quoted = !quoted;
    _snwprintf(line, sizeof line / sizeof *line - 1, L"\"%ls\"%ls", path, words);
    GetStartupInfoW(&how);
    if (!CreateProcessW(path, line, NULL, NULL, TRUE, 0, NULL, NULL, &how, &started))
        return fail(path, NULL);
    if (wcsstr(program, L"-cli")) {
        SetConsoleCtrlHandler(NULL, TRUE); /* Ctrl-C is for the version */
        WaitForSingleObject(started.hProcess, INFINITE);
        GetExitCodeProcess(started.hProcess, &status);
    }
    return status;
}

/* Run start.pyc, which ends this process; return only if it did not start the launcher. */
static int run_python(const wchar_t *app, int argc, wchar_t **argv)
{
    static const wchar_t *parts[] = {L"python311.dll", L"python311.zip", L"start.pyc"}; /* in app */
    static wchar_t names[3][ROOM + 32], fault[ROOM];
    for (int at = 0; at < 3; at++) {
        _snwprintf(names[at], ROOM + 31, L"%ls%ls", app, parts[at]);
        if (GetFileAttributesW(names[at]) == INVALID_FILE_ATTRIBUTES)
            return fail(names[at], NULL);
    }
    HMODULE python = LoadLibraryExW(names[0], NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32);
    if (python == NULL)
        return fail(names[0], NULL);
    py_defaults set_defaults = (py_defaults)(void *)GetProcAddress(python, "PyConfig_InitPythonConfig");
    py_arguments set_arguments = (py_arguments)(void *)GetProcAddress(python, "PyConfig_SetArgv");
    py_initialize initialize = (py_initialize)(void *)GetProcAddress(python, "Py_InitializeFromConfig");
    py_run run = (py_run)(void *)GetProcAddress(python, "Py_RunMain");
    wchar_t **words = calloc(argc + 5, sizeof *words);
    if (!set_defaults || !set_arguments || !initialize || !run || !words)
        return fail(names[0], NULL);
    wchar_t *options[] = {own, L"-X", L"utf8", names[2]}; /* sys.executable is the first */
    memcpy(words, options, sizeof options);
    memcpy(words + 4, argv + 1, (argc - 1) * sizeof *words);
    set_defaults(config);
    py_status status = set_arguments(config, argc + 3, words);
    if (!status.type)
        status = initialize(config);
    if (status.type) { /* such as a zip without the modules that CPython needs first */
        _snwprintf(fault, ROOM - 1, L"%hs", status.fault ? status.fault : "Python does not start");
        return fail(names[1], fault);
    }
    SetEnvironmentVariableW(L"SVC_LAUNCHER_FAULT", NULL);
    int result = run();
    if (result == (int)STATUS_CONTROL_C_EXIT)
        return result;
    wcscpy(fault, L"it did not run");
    GetEnvironmentVariableW(L"SVC_LAUNCHER_FAULT", fault, ROOM);
    return fail(app, fault);
}

int wmain(int argc, wchar_t **argv)
{
    static wchar_t app[ROOM + 8];
    DWORD length = GetModuleFileNameW(NULL, own, ROOM);
    while (length > 0 && own[length - 1] != L'\\')
        length--;
    wcsncpy(folder, own, length);
    open_stream(STD_INPUT_HANDLE, GENERIC_READ);
    open_stream(STD_OUTPUT_HANDLE, GENERIC_WRITE);
    open_stream(STD_ERROR_HANDLE, GENERIC_WRITE);
    _snwprintf(app, ROOM + 7, L"%lsapp\\", folder);
    _snwprintf(path, ROOM, L"%lscurrent.txt", folder);
    if (GetFileAttributesW(app) == INVALID_FILE_ATTRIBUTES && GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES)
        return start_version(own + length);
    return run_python(app, argc, argv);
}
