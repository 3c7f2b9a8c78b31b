// SPDX-License-Identifier: Apache-2.0
//
// run_onnx.js MODULES MODEL: runs the model with onnxruntime-node on an input of 1, 2, 3 ...; prints the outputs as JSON
// {product: [numbers], copy: base64 of the F32 bytes}.
const path = require('path');
const [modules, model] = process.argv.slice(2);
const ort = require(path.join(modules, 'onnxruntime-node'));

async function main() {
  const session = await ort.InferenceSession.create(model);
  const k = Number(process.env.K);
  const input = Float32Array.from({length: k}, (_, i) => (i % 7) - 3);
  const result = await session.run({input: new ort.Tensor('float32', input, [1, k])});
  const copy = result.copy.data;
  console.log(JSON.stringify({
    product: Array.from(result.product.data),
    copy: Buffer.from(copy.buffer, copy.byteOffset, copy.byteLength).toString('base64'),
  }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
