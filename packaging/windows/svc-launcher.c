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

typedef int (*py_main)(int, wchar_t **);

static wchar_t own[ROOM], folder[ROOM], path[ROOM + LONGEST + 64], line[2 * ROOM + LONGEST + 64];

/* CPython ends at once when a standard stream is missing or cannot be used, so it gets NUL instead. */
static void open_stream(DWORD which, DWORD access)
{
    HANDLE there = GetStdHandle(which);
    if (there == NULL || there == INVALID_HANDLE_VALUE || GetFileType(there) == FILE_TYPE_UNKNOWN)
        SetStdHandle(which, CreateFileW(L"NUL", access, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL));
}

static int fail(const wchar_t *path)
{
    static wchar_t text[ROOM + 256];
    _snwprintf(text, ROOM + 255, L"The launcher cannot start, because %ls cannot be loaded (error %lu).\n"
        L"Unzip the whole folder again, then start svc-launcher.exe in it.", path, GetLastError());
    MessageBoxW(NULL, text, L"svc-launcher", MB_ICONERROR);
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
        return fail(path);
    const wchar_t *words = GetCommandLineW();
    int quoted = 0;
    while (*words && (quoted || (*words != L' ' && *words != L'\t')))
        if (*words++ == L'"')
            quoted = !quoted;
    _snwprintf(line, sizeof line / sizeof *line - 1, L"\"%ls\"%ls", path, words);
    GetStartupInfoW(&how);
    if (!CreateProcessW(path, line, NULL, NULL, TRUE, 0, NULL, NULL, &how, &started))
        return fail(path);
    if (wcsstr(program, L"-cli")) {
        SetConsoleCtrlHandler(NULL, TRUE); /* Ctrl-C is for the version */
        WaitForSingleObject(started.hProcess, INFINITE);
        GetExitCodeProcess(started.hProcess, &status);
    }
    return status;
}

int wmain(int argc, wchar_t **argv)
{
    static wchar_t library[ROOM + 32], script[ROOM + 32];
    DWORD length = GetModuleFileNameW(NULL, own, ROOM);
    while (length > 0 && own[length - 1] != L'\\')
        length--;
    wcsncpy(folder, own, length);
    _snwprintf(script, ROOM + 31, L"%lsapp\\start.pyc", folder);
    _snwprintf(library, ROOM + 31, L"%lsapp\\python311.dll", folder);
    open_stream(STD_INPUT_HANDLE, GENERIC_READ);
    open_stream(STD_OUTPUT_HANDLE, GENERIC_WRITE);
    open_stream(STD_ERROR_HANDLE, GENERIC_WRITE);
    _snwprintf(path, ROOM, L"%lscurrent.txt", folder);
    if (GetFileAttributesW(library) == INVALID_FILE_ATTRIBUTES && GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES)
        return start_version(own + length);
    HMODULE python = LoadLibraryExW(library, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32);
    py_main run = python ? (py_main)(void *)GetProcAddress(python, "Py_Main") : NULL;
    wchar_t **words = calloc(argc + 5, sizeof *words);
    if (run == NULL || words == NULL)
        return fail(library);
    wchar_t *options[] = {own, L"-X", L"utf8", script}; /* sys.executable is the first */
    memcpy(words, options, sizeof options);
    memcpy(words + 4, argv + 1, (argc - 1) * sizeof *words);
    return run(argc + 3, words);
}
