import { nextTask } from '@watchfire/pages/content'
import { dropped } from '../messages/dropped.ts'
import { filesOf } from './FilePicker.tsx'
import type { PageFile } from './site.ts'

/** Files of one drop; further ones are left out, and the person is notified. A page has at most 65,536 blocks. */
export const DROPPED_FILES_MAX = 20_000

/**
 * Files and folders that the browser is asked for in one task. Chromium reads all answers that are there in one task, and those to the
 * requests that follow from them too. So 10,000 files were one task of seconds, during which the page did not answer.
 */
export const READ_PER_TASK = 20

/** The contents of a drop. */
export interface Dropped {
  files: readonly PageFile[]
  /** Paths of folders without anything in them. */
  emptyFolders: readonly string[]
  /** The notice of files that were left out, and how to share them; `null` when all were added. */
  notice: string | null
}

/** The contents of a transfer. They are taken from it before this function returns, because the browser then empties it. */
export function readTransfer({ items, files }: DataTransfer): Promise<Dropped> {
  const entries = [...items].flatMap((item) => (item.kind === 'file' ? (item.webkitGetAsEntry() ?? []) : []))
  return entries.length > 0 ? readDrop(entries) : Promise.resolve({ files: filesOf(files), emptyFolders: [], notice: null })
}

/** The files below dropped files and folders, each with its path from the drop. Nothing is added when one is unreadable. */
export async function readDrop(entries: readonly FileSystemEntry[], filesMax = DROPPED_FILES_MAX): Promise<Dropped> {
  const files: PageFile[] = []
  const emptyFolders: string[] = []
  try {
    const isAll = await walk(entries, { files, emptyFolders, filesMax, foldersRead: 0 })
    // Empty folders alone would be a page on which nothing can be seen.
    if (files.length === 0) return { files, emptyFolders: [], notice: dropped('nothing') }
    return { files, emptyFolders, notice: isAll ? null : dropped('cut', { count: files.length }) }
  } catch {
    return { files: [], emptyFolders: [], notice: dropped('unreadable') }
  }
}

/** The files of a folder that was picked. The browser has read all of them, and names no empty folders. */
export function readPicked(picked: readonly PageFile[], filesMax = DROPPED_FILES_MAX): Dropped {
  const files = picked.slice(0, filesMax)
  const notice = files.length === 0 ? dropped('nothing') : files.length < picked.length ? dropped('cut', { count: files.length }) : null
  return { files, emptyFolders: [], notice }
}

interface Found {
  readonly files: PageFile[]
  readonly emptyFolders: string[]
  readonly filesMax: number
  foldersRead: number
}

/** Collects the files below; returns whether all of them were added. */
async function walk(entries: readonly FileSystemEntry[], into: Found): Promise<boolean> {
  const direct = entries.filter(isFile)
  const room = direct.slice(0, into.filesMax - into.files.length)
  for (let from = 0; from < room.length; from += READ_PER_TASK) {
    into.files.push(...(await Promise.all(room.slice(from, from + READ_PER_TASK).map(fileOf))))
    await nextTask()
  }
  if (room.length < direct.length) return false
  for (const folder of entries.filter(isDirectory)) {
    if (++into.foldersRead % READ_PER_TASK === 0) await nextTask()
    let isEmpty = true
    for await (const some of childrenOf(folder)) {
      isEmpty = false
      if (!(await walk(some, into))) return false
    }
    if (isEmpty) into.emptyFolders.push(pathOf(folder))
  }
  return true
}

async function fileOf(entry: FileSystemFileEntry): Promise<PageFile> {
  const blob = await new Promise<File>((resolve, reject) => entry.file(resolve, reject))
  return { path: pathOf(entry), blob }
}

/** `readEntries` returns a hundred entries at a time, then an empty list. */
async function* childrenOf(directory: FileSystemDirectoryEntry): AsyncGenerator<FileSystemEntry[]> {
  const reader = directory.createReader()
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (some.length === 0) return
    yield some
  }
}

function pathOf({ fullPath }: FileSystemEntry): string {
  return fullPath.replace(/^\/+/, '')
}

function isDirectory(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory
}

function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile
}
