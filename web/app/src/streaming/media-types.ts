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

const PLAYED = new Set([...Object.values(AUDIO_TYPES), ...Object.values(VIDEO_TYPES)])

/** Whether this media type is given to a player. */
export function isMediaType(mime: string): boolean {
  return PLAYED.has(mime)
}
