import type { Plugin } from 'vite'
import { flamePng } from './flame.ts'

/** The name and colours of an installed copy. */
const MANIFEST = {
  name: 'Watchfire',
  short_name: 'Watchfire',
  description: 'A page that lives in the browsers that have it open, and is gone when the last one closes.',
  lang: 'en',
  id: '/',
  start_url: '/',
  scope: '/',
  display: 'standalone',
  background_color: '#15131a',
  theme_color: '#15131a',
  categories: ['productivity', 'social', 'utilities'],
  icons: [
    { src: '/icon-192.png', sizes: '192x192', type: 'image/png' },
    { src: '/icon-512.png', sizes: '512x512', type: 'image/png' },
    { src: '/icon-maskable-512.png', sizes: '512x512', type: 'image/png', purpose: 'maskable' },
    { src: '/favicon.svg', sizes: 'any', type: 'image/svg+xml' },
  ],
  shortcuts: [
    { name: 'Light a page', url: '/' },
    { name: 'Burning in this tab', url: '/#kept' },
    { name: 'Chat', url: '/chat' },
  ],
}

const ICONS = {
  'icon-192.png': { pixels: 192, scale: 0.8, corner: 0.44 },
  'icon-512.png': { pixels: 512, scale: 0.8, corner: 0.44 },
  // Phones crop icons to any shape; the drawing stays within the middle four fifths.
  'icon-maskable-512.png': { pixels: 512, scale: 0.62, corner: 0 },
  'icon-apple-180.png': { pixels: 180, scale: 0.72, corner: 0 },
}

/** Writes the manifest and the icons that make the application installable. */
export function installable(): Plugin {
  return {
    name: 'installable',
    apply: 'build',
    generateBundle() {
      const emit = (fileName: string, source: string | Uint8Array) => this.emitFile({ type: 'asset', fileName, source })
      emit('manifest.webmanifest', JSON.stringify(MANIFEST))
      for (const [name, options] of Object.entries(ICONS)) emit(name, flamePng(options))
    },
  }
}
