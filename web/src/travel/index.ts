/** How a page travels, for whoever wants to know. Fetched when somebody does. */
export { TravelPanel } from './TravelPanel.tsx'
