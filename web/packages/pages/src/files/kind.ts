import { decoded, encodingOf, isBinary } from './encoding.ts'

/** The view of a file. `other` can only be saved. */
export type Kind =
  | { kind: 'text' }
  | { kind: 'markdown' }
  | { kind: 'code'; language: string }
  | { kind: 'html' }
  | { kind: 'picture'; mime: string }
  | { kind: 'audio'; mime: string }
  | { kind: 'video'; mime: string }
  | { kind: 'pdf' }
  | { kind: 'other' }

/** Bytes from the start of a file that are enough to determine its kind. */
export const SNIFFED_BYTES = 4096

const MARKDOWN = new Set(['md', 'markdown', 'mdown', 'mkd'])
const HTML = new Set(['html', 'htm', 'xhtml'])
const TEXT = new Set(['txt', 'text', 'log', 'csv', 'tsv', 'srt', 'vtt', 'nfo'])

const LANGUAGES: Record<string, string> = {
  bash: 'bash',
  c: 'c',
  cc: 'cpp',
  cfg: 'ini',
  cjs: 'javascript',
  conf: 'ini',
  cpp: 'cpp',
  css: 'css',
  diff: 'diff',
  go: 'go',
  h: 'c',
  hpp: 'cpp',
  ini: 'ini',
  java: 'java',
  js: 'javascript',
  json: 'json',
  jsonl: 'json',
  jsx: 'javascript',
  mjs: 'javascript',
  patch: 'diff',
  py: 'python',
  rb: 'ruby',
  rs: 'rust',
  sh: 'bash',
  sql: 'sql',
  toml: 'ini',
  ts: 'typescript',
  tsx: 'typescript',
  xml: 'xml',
  yaml: 'yaml',
  yml: 'yaml',
  zsh: 'bash',
}

const PICTURES: Record<string, string> = {
  apng: 'image/apng',
  avif: 'image/avif',
  bmp: 'image/bmp',
  gif: 'image/gif',
  ico: 'image/x-icon',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
}

const AUDIO_TYPES: Record<string, string> = {
  aac: 'audio/aac',
  flac: 'audio/flac',
  m4a: 'audio/mp4',
  mp3: 'audio/mpeg',
  oga: 'audio/ogg',
  ogg: 'audio/ogg',
  opus: 'audio/ogg',
  wav: 'audio/wav',
  weba: 'audio/webm',
}

const VIDEO_TYPES: Record<string, string> = {
  m4v: 'video/mp4',
  mkv: 'video/x-matroska',
  mov: 'video/quicktime',
  mp4: 'video/mp4',
  ogv: 'video/ogg',
  webm: 'video/webm',
}

/**
 * The kind of a file by its name. Its first bytes decide when the name has no known extension, or
 * promises text and the bytes are not text.
 */
export function kindOf(name: string | null, head: Uint8Array): Kind {
  const named = name === null ? null : kindOfName(name)
  if (named === null) return kindOfBytes(head)
  const promisesText = ['text', 'markdown', 'code', 'html'].includes(named.kind)
  // Such a file is text in any encoding.
  return promisesText && isBinary(head) ? kindOfBytes(head) : named
}

/** The kind of a file by its name alone; `null` when its extension is not known. */
export function kindOfName(name: string): Kind | null {
  const extension = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase()
  if (extension === undefined) return null
  if (MARKDOWN.has(extension)) return { kind: 'markdown' }
  if (HTML.has(extension)) return { kind: 'html' }
  if (TEXT.has(extension)) return { kind: 'text' }
  if (extension === 'pdf') return { kind: 'pdf' }
  const language = own(LANGUAGES, extension)
  if (language !== undefined) return { kind: 'code', language }
  const picture = own(PICTURES, extension)
  if (picture !== undefined) return { kind: 'picture', mime: picture }
  const sound = own(AUDIO_TYPES, extension)
  if (sound !== undefined) return { kind: 'audio', mime: sound }
  const film = own(VIDEO_TYPES, extension)
  if (film !== undefined) return { kind: 'video', mime: film }
  return null
}

/** Whether a file is audio or video, by its name alone; `null` for all others. */
export function mediaKind(name: string | null): Extract<Kind, { kind: 'audio' | 'video' }> | null {
  const named = name === null ? null : kindOfName(name)
  return named?.kind === 'audio' || named?.kind === 'video' ? named : null
}

/** The media type of a picture, by its name and bytes; `null` when it is not a picture that the app shows. */
export function pictureType(name: string, head: Uint8Array): string | null {
  const kind = kindOf(name, head)
  return kind.kind === 'picture' ? kind.mime : null
}

function kindOfBytes(head: Uint8Array): Kind {
  const at = (offset: number, text: string) => [...text].every((letter, i) => head[offset + i] === letter.charCodeAt(0))
  if (at(0, '\x89PNG\r\n\x1a\n')) return { kind: 'picture', mime: 'image/png' }
  if (at(0, '\xff\xd8\xff')) return { kind: 'picture', mime: 'image/jpeg' }
  if (at(0, 'GIF87a') || at(0, 'GIF89a')) return { kind: 'picture', mime: 'image/gif' }
  if (at(0, 'RIFF') && at(8, 'WEBP')) return { kind: 'picture', mime: 'image/webp' }
  if (at(0, 'RIFF') && at(8, 'WAVE')) return { kind: 'audio', mime: 'audio/wav' }
  if (at(4, 'ftypavif') || at(4, 'ftypavis')) return { kind: 'picture', mime: 'image/avif' }
  if (at(4, 'ftypM4A') || at(4, 'ftypM4B')) return { kind: 'audio', mime: 'audio/mp4' }
  if (at(4, 'ftypqt')) return { kind: 'video', mime: 'video/quicktime' }
  if (at(4, 'ftyp')) return isCameraPicture(head) ? { kind: 'other' } : { kind: 'video', mime: 'video/mp4' }
  if (at(0, '\x1a\x45\xdf\xa3')) return { kind: 'video', mime: 'video/webm' }
  if (at(0, 'OggS')) return { kind: 'audio', mime: 'audio/ogg' }
  if (at(0, 'fLaC')) return { kind: 'audio', mime: 'audio/flac' }
  if (at(0, 'ID3') || isMp3Frame(head)) return { kind: 'audio', mime: 'audio/mpeg' }
  if (at(0, '%PDF-')) return { kind: 'pdf' }
  // A nameless file in an old encoding cannot be told from a binary one, unless it declares the encoding.
  const encoding = encodingOf(head, 'html')
  if (isBinary(head) || encoding.by === 'guess') return { kind: 'other' }
  const text = decoded(head, encoding)
  const start = text
    .replace(/^(?:\s+|<!--[\s\S]*?-->|<\?xml[\s\S]*?\?>)+/, '')
    .slice(0, 20)
    .toLowerCase()
  if (start.startsWith('<!doctype html') || /^<html[\s>]/.test(start)) return { kind: 'html' }
  if (/^<svg[\s>]/.test(start) || start.startsWith('<!doctype svg')) {
    return { kind: 'picture', mime: 'image/svg+xml' }
  }
  return { kind: 'text' }
}

/** Pictures in the container of MP4 that most browsers cannot show: HEIC of phones, and raw pictures of Canon. */
function isCameraPicture(head: Uint8Array): boolean {
  const brand = String.fromCharCode(...head.subarray(8, 12))
  return /^(?:he[iv][cmsx]|mif[12]|msf1|crx )$/.test(brand)
}

/** Layer III of MPEG 1 or 2: eleven set bits, and a valid version and layer. */
function isMp3Frame(head: Uint8Array): boolean {
  const [first = 0, second = 0, third = 0] = head
  return first === 0xff && (second & 0xe6) === 0xe2 && (second & 0x18) !== 0x08 && third >> 4 !== 15
}

function own(table: Record<string, string>, key: string): string | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined
}
