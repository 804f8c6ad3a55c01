/** Media types of audio files, by extension. */
export const AUDIO_TYPES: Record<string, string> = {
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

export const VIDEO_TYPES: Record<string, string> = {
  m4v: 'video/mp4',
  mkv: 'video/x-matroska',
  mov: 'video/quicktime',
  mp4: 'video/mp4',
  ogv: 'video/ogg',
  webm: 'video/webm',
}

/** Pictures that are drawn as their bytes arrive. SVG is not among them: it is a document, and is drawn only when it is complete. */
const PICTURE_TYPES = new Set(['image/avif', 'image/gif', 'image/jpeg', 'image/png', 'image/webp'])

const PLAYED = new Set([...Object.values(AUDIO_TYPES), ...Object.values(VIDEO_TYPES)])

/** Whether a picture of this media type can be shown from a stream. */
export function isStreamedPicture(mime: string): boolean {
  return PICTURE_TYPES.has(mime)
}

/** Whether a file of this media type is streamed to a player or an image element. */
export function isStreamedType(mime: string): boolean {
  return PLAYED.has(mime) || isStreamedPicture(mime)
}
