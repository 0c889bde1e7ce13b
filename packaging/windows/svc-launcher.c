/* svc-launcher.exe: loads CPython from the folder "app" beside this program and runs app\start.pyc. */
#include <windows.h>
#include <stdlib.h>
#include <wchar.h>

#define ROOM 32768 /* the longest path of Windows */

int _dowildcard = 0; /* the C runtime would take the ? of an invite for a pattern of file names */

typedef int (*py_main)(int, wchar_t **);

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

int wmain(int argc, wchar_t **argv)
{
    static wchar_t library[ROOM + 32], script[ROOM + 32];
    DWORD length = GetModuleFileNameW(NULL, library, ROOM);
    while (length > 0 && library[length - 1] != L'\\')
        length--;
    wcscpy(library + length, L"app\\");
    wcscpy(script, library);
    wcscat(script, L"start.pyc");
    wcscat(library, L"python311.dll");
    open_stream(STD_INPUT_HANDLE, GENERIC_READ);
    open_stream(STD_OUTPUT_HANDLE, GENERIC_WRITE);
    open_stream(STD_ERROR_HANDLE, GENERIC_WRITE);
    HMODULE python = LoadLibraryExW(library, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32);
    py_main run = python ? (py_main)(void *)GetProcAddress(python, "Py_Main") : NULL;
    wchar_t **words = calloc(argc + 5, sizeof *words);
    if (run == NULL || words == NULL)
        return fail(library);
    wchar_t *options[] = {argv[0], L"-X", L"utf8", script};
    memcpy(words, options, sizeof options);
    memcpy(words + 4, argv + 1, (argc - 1) * sizeof *words);
    return run(argc + 3, words);
}
